"""Brokers that refuse a client: librdkafka goes on trying, and only tells its callback of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from pipeline.errors import OperatorError, TryAgainError

if TYPE_CHECKING:
    from schemas.addresses import KafkaAddress

_ALERT = re.compile(r"alert ([a-z ]+): SSL alert number")
"""How a broker says that it refuses a client's certificate, or that it has none."""

_OWN_WORDS = "Local: "
"""The client's own errors begin so: a login that a broker's end cut short is not refused."""


class Refusals:
    """What one client was told; `hear` is its `error_cb`, which the client calls when it polls.

    A broker that is away is not a refusal: it may come back, and then nobody has to act.
    """

    def __init__(self, kafka: KafkaAddress) -> None:
        self._kafka = kafka
        self._refused: OperatorError | None = None
        self._is_unreachable = False

    def hear(self, error: KafkaError) -> None:
        """Remember what stands against the client, if anything does. Never raises."""
        code, told = error.code(), error.str()
        if code == KafkaError._AUTHENTICATION and _OWN_WORDS not in told:
            self._refused = _refused_user(self._kafka, told)
        elif code == KafkaError._SSL or _ALERT.search(told):
            self._refused = _refused_tls(self._kafka, told)
        elif code == KafkaError._RESOLVE or "Connect to" in told:
            self._is_unreachable = True

    def as_ours(self) -> OperatorError | TryAgainError:
        """Why there is no answer: somebody must act, or the brokers are away."""
        if self._refused is not None:
            return self._refused
        # One that is reached and says nothing may wait for TLS, or know of none.
        hint = "" if self._is_unreachable else ", and TALLY_KAFKA_SECURITY how it is spoken to"
        return TryAgainError(
            f"Kafka at {self._kafka} does not answer; is it up? TALLY_KAFKA sets its address{hint}"
        )


def _refused_user(kafka: KafkaAddress, told: str) -> OperatorError:
    security = kafka.security
    if "Unsupported SASL mechanism" in told:
        return OperatorError(
            f"Kafka at {kafka} does not let users log in by {security.mechanism}: check "
            "TALLY_KAFKA_SASL_MECHANISM"
        )
    return OperatorError(
        f"Kafka at {kafka} refused user {security.user}: check TALLY_KAFKA_USER and "
        "TALLY_KAFKA_PASSWORD"
    )


def _refused_tls(kafka: KafkaAddress, told: str) -> OperatorError:
    if alert := _ALERT.search(told):
        return OperatorError(
            f"Kafka at {kafka} refused this client's certificate ({alert[1]}): check "
            "TALLY_KAFKA_CERT and TALLY_KAFKA_KEY"
        )
    reason = " (certificate verify failed)" if "certificate verify failed" in told else ""
    return OperatorError(
        f"Kafka at {kafka} and this client do not agree on TLS{reason}: check TALLY_KAFKA_CA, and "
        "whether the broker's certificate names its host"
    )
