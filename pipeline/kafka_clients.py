"""How the address of a Kafka becomes the arguments of each client: the one place for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.tls import client_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from faust.types.auth import CredentialsT

    from schemas.addresses import KafkaAddress, KafkaSecurity


def librdkafka(kafka: KafkaAddress, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The configuration of confluent-kafka's Producer, Consumer or AdminClient.

    `own` is what the client wants beside. It logs nothing: what fails is told by errors.
    """
    security = kafka.security
    found: dict[str, Any] = {
        "bootstrap.servers": kafka.hosts,
        "security.protocol": security.protocol,
        "sasl.mechanism": security.mechanism,
        "sasl.username": security.user,
        "sasl.password": security.password and security.password.get_secret_value(),
    }
    if security.uses_tls:
        found["ssl.ca.location"] = security.ca and str(security.ca)
        if (shown := security.certificate) is not None:
            found["ssl.certificate.location"] = str(shown.cert)
            found["ssl.key.location"] = str(shown.key or shown.cert)
            found["ssl.key.password"] = shown.key_password and shown.key_password.get_secret_value()
    given = {name: value for name, value in found.items() if value is not None}
    return {**given, "log_level": 0, **(own or {})}


def aiokafka(kafka: KafkaAddress) -> dict[str, Any]:
    """The arguments of aiokafka's clients. Reads certificates; raises OperatorError."""
    security = kafka.security
    found: dict[str, Any] = {
        "bootstrap_servers": kafka.hosts,
        "security_protocol": security.protocol.upper(),
        "ssl_context": tls_context(security),
    }
    if security.uses_sasl:
        found["sasl_mechanism"] = security.mechanism
        found["sasl_plain_username"] = security.user
        found["sasl_plain_password"] = _password(security)
    return found


def faust_credentials(kafka: KafkaAddress) -> CredentialsT | None:
    """Faust's `broker_credentials`; None for plaintext. Reads files; raises OperatorError."""
    from faust.auth import SASLCredentials, SSLCredentials  # noqa: PLC0415 - brings Faust

    security, context = kafka.security, tls_context(kafka.security)
    if security.uses_sasl:
        return SASLCredentials(
            username=security.user,
            password=_password(security),
            ssl_context=context,
            mechanism=security.mechanism,
        )
    return SSLCredentials(context) if context is not None else None


def tls_context(security: KafkaSecurity) -> ssl.SSLContext | None:
    """None where connections are not encrypted. Reads certificates; raises OperatorError."""
    return client_context(security.ca, security.certificate) if security.uses_tls else None


def _password(security: KafkaSecurity) -> str:
    return security.password.get_secret_value() if security.password else ""
