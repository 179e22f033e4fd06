"""Brokers that refuse a client: librdkafka goes on trying, and tells of it beside."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from schemas.addresses import KafkaAddress

_OPENSSL_REASON = re.compile(r"certificate verify failed|[a-z ]+(?=\s*\(SSL alert number)")
_OTHER_PROTOCOL = "security.protocol"
"""In what librdkafka says of a broker that hangs up on the first request."""


class Refusals:
    """What one client was told; `hear` is its `error_cb`, which the client calls when it polls.

    A broker that is away is not a refusal: it may come back, and then nobody has to act.
    """

    def __init__(self, kafka: KafkaAddress) -> None:
        self._kafka = kafka
        self._refused: OperatorError | None = None
        self._hint = ""

    def hear(self, error: KafkaError) -> None:
        """Remember what stands against the client, if anything does. Never raises."""
        if error.code() == KafkaError._AUTHENTICATION:
            self._refused = _refused_user(self._kafka, error.str())
        elif error.code() == KafkaError._SSL:
            self._refused = _refused_tls(self._kafka, error.str())
        elif _OTHER_PROTOCOL in error.str():
            self._hint = ", and TALLY_KAFKA_SECURITY how it is spoken to"

    def as_ours(self) -> OperatorError | TryAgainError:
        """Why there is no answer: somebody must act, or the brokers are away."""
        if self._refused is not None:
            return self._refused
        return TryAgainError(
            f"Kafka at {self._kafka} does not answer; is it up? TALLY_KAFKA sets its address"
            f"{self._hint}"
        )


def _refused_user(kafka: KafkaAddress, told: str) -> OperatorError:
    security = kafka.security
    if "mechanism" in told:
        return OperatorError(
            f"Kafka at {kafka} does not let users log in by {security.mechanism}: check "
            "TALLY_KAFKA_SASL_MECHANISM"
        )
    return OperatorError(
        f"Kafka at {kafka} refused user {security.user}: check TALLY_KAFKA_USER and "
        "TALLY_KAFKA_PASSWORD"
    )


def _refused_tls(kafka: KafkaAddress, told: str) -> OperatorError:
    found = _OPENSSL_REASON.search(told)
    reason = f" ({found[0].strip()})" if found else ""
    own = ", TALLY_KAFKA_CERT" if kafka.security.certificate else ""
    return OperatorError(
        f"Kafka at {kafka} and this client do not agree on TLS{reason}: check TALLY_KAFKA_CA{own} "
        "and TALLY_KAFKA_SECURITY"
    )
