"""Where Kafka is, and how its brokers are spoken to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode

from schemas.addresses import (
    ClientCertificate,
    KafkaAddress,
    KafkaProtocol,
    KafkaSecurity,
    SaslMechanism,
)
from schemas.host_port import split_host_port
from schemas.secret_files import check_ca, check_certificate, read_password

DEFAULT_HOSTS: Any = "127.0.0.1:19092"
"""As text, so that it is checked and made an address like any other."""

_SASL = "TALLY_KAFKA_SECURITY=sasl_plaintext or sasl_ssl"
_TLS = "TALLY_KAFKA_SECURITY=ssl or sasl_ssl"


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _upper(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


class KafkaSettings(BaseSettings):
    """The part of Settings that is about Kafka; `kafka` is made of all the others.

    Fields are checked in their order, each against those before it, so that a contradiction is
    reported once and by the name of the variable that has to go, come or change.
    """

    kafka_security: Annotated[KafkaProtocol, BeforeValidator(_lower)] = Field(
        default="plaintext", description="How Kafka is spoken to, by the names Kafka has for it."
    )
    kafka_sasl_mechanism: Annotated[SaslMechanism | None, BeforeValidator(_upper)] = Field(
        default=None, description="How the user logs in."
    )
    kafka_user: str | None = Field(default=None, description="Who logs in.")
    kafka_password: SecretStr | None = Field(default=None, description="The user's password.")
    kafka_password_file: Path | None = Field(
        default=None, description="A file with the user's password instead."
    )
    kafka_ca: Path | None = Field(
        default=None, description="Authorities to trust, PEM; unset: the system's."
    )
    kafka_key_password: SecretStr | None = Field(
        default=None, description="The password of the client's key, if it has one."
    )
    kafka_key: Path | None = Field(
        default=None, description="The client's key, PEM, if it is not in the certificate's file."
    )
    kafka_cert: Path | None = Field(
        default=None, description="The client's certificate, PEM, for brokers that ask for one."
    )
    kafka: Annotated[KafkaAddress, NoDecode, PlainSerializer(str)] = Field(
        default=DEFAULT_HOSTS, description="Kafka: host:port, or several with commas between."
    )

    @field_validator("kafka_sasl_mechanism")
    @classmethod
    def _mechanism_goes_with_sasl(
        cls, value: SaslMechanism | None, info: ValidationInfo
    ) -> SaslMechanism | None:
        _only_with_sasl(value, info, "name PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
        return value

    @field_validator("kafka_user")
    @classmethod
    def _user_goes_with_sasl(cls, value: str | None, info: ValidationInfo) -> str | None:
        _only_with_sasl(value, info, "name the user")
        return value

    @field_validator("kafka_password")
    @classmethod
    def _password_has_a_user(
        cls, value: SecretStr | None, info: ValidationInfo
    ) -> SecretStr | None:
        _only_with_user(value, info)
        return value

    @field_validator("kafka_password_file")
    @classmethod
    def _one_password(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        _only_with_user(value, info)
        if value is not None and info.data.get("kafka_password") is not None:
            raise ValueError("give it or TALLY_KAFKA_PASSWORD, not both")
        if value is not None:
            read_password(value)
        elif info.data.get("kafka_user") and info.data.get("kafka_password", "") is None:
            raise ValueError("give it or TALLY_KAFKA_PASSWORD for the user in TALLY_KAFKA_USER")
        return value

    @field_validator("kafka_ca")
    @classmethod
    def _ca_goes_with_tls(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        _only_with_tls(value, info)
        if value is not None:
            check_ca(value)
        return value

    @field_validator("kafka_cert")
    @classmethod
    def _certificate_goes_with_tls(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        _only_with_tls(value, info)
        key, password = info.data.get("kafka_key"), info.data.get("kafka_key_password")
        if value is not None:
            check_certificate(ClientCertificate(value, key, password))
        elif key is not None:
            raise ValueError("name the certificate whose key TALLY_KAFKA_KEY is")
        elif password is not None:
            raise ValueError("name the certificate whose key has TALLY_KAFKA_KEY_PASSWORD")
        return value

    @field_validator("kafka", mode="plain")
    @classmethod
    def _kafka_address(cls, value: object, info: ValidationInfo) -> KafkaAddress:
        """Text, from the environment or from code; what is an address already stays as it is."""
        if isinstance(value, KafkaAddress):
            return value
        if not isinstance(value, str):
            raise ValueError("expected host:port")  # noqa: TRY004 - pydantic reports ValueErrors
        hosts = [part.strip() for part in value.split(",")]
        for host in hosts:
            split_host_port(host)
        return KafkaAddress(",".join(hosts), _security(info.data))


def _security(found: Mapping[str, Any]) -> KafkaSecurity:
    """What the fields say together. One that was refused is missing: nobody uses the result."""
    password, file = found.get("kafka_password"), found.get("kafka_password_file")
    cert = found.get("kafka_cert")
    return KafkaSecurity(
        protocol=found.get("kafka_security", "plaintext"),
        mechanism=found.get("kafka_sasl_mechanism"),
        user=found.get("kafka_user"),
        password=password if file is None else read_password(file),
        ca=found.get("kafka_ca"),
        certificate=None
        if cert is None
        else ClientCertificate(cert, found.get("kafka_key"), found.get("kafka_key_password")),
    )


def _only_with_sasl(value: object, info: ValidationInfo, to_do: str) -> None:
    protocol = info.data.get("kafka_security")
    if protocol is None:
        return
    if KafkaSecurity(protocol).uses_sasl and value is None:
        raise ValueError(f"{to_do}, since TALLY_KAFKA_SECURITY is {protocol}")
    if not KafkaSecurity(protocol).uses_sasl and value is not None:
        raise ValueError(f"it goes with {_SASL}, not {protocol}")


def _only_with_user(value: object, info: ValidationInfo) -> None:
    if value is not None and info.data.get("kafka_user", "") is None:
        raise ValueError("it goes with TALLY_KAFKA_USER, which is not set")


def _only_with_tls(value: object, info: ValidationInfo) -> None:
    protocol = info.data.get("kafka_security")
    if value is not None and protocol is not None and not KafkaSecurity(protocol).uses_tls:
        raise ValueError(f"it goes with {_TLS}, not {protocol}")
