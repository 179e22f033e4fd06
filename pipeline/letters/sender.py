"""Puts retried dead letters into the log, in their old partitions, and waits for Kafka's word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipeline import dead_letters, topics
from pipeline.kafka_clients import librdkafka

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.letters.letter import LetterKey
    from pipeline.letters.retry import Attempt
    from schemas.addresses import KafkaAddress

_DELIVERY_TIMEOUT_S = 60.0


class KafkaRetrySender:
    """A RetrySender: one idempotent client that waits for all replicas. Not thread-safe."""

    def __init__(self, kafka: KafkaAddress) -> None:
        """Connects later; never blocks."""
        self._producer = Producer(
            librdkafka(
                kafka,
                {
                    "enable.idempotence": True,
                    "acks": "all",
                    "linger.ms": 20,
                    "message.max.bytes": dead_letters.MAX_BYTES,
                    "delivery.timeout.ms": int(_DELIVERY_TIMEOUT_S * 1000),
                },
            )
        )

    def send(self, attempts: Sequence[Attempt]) -> dict[LetterKey, str]:
        """As the protocol says. What is not confirmed may be in the log all the same."""
        failures = {attempt.key: "no answer" for attempt in attempts}
        for attempt in attempts:
            self._send(attempt, failures)
        self._producer.flush(_DELIVERY_TIMEOUT_S)
        return failures

    def _send(self, attempt: Attempt, failures: dict[LetterKey, str]) -> None:
        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                del failures[attempt.key]
            else:
                failures[attempt.key] = error.str()

        while True:
            try:
                self._producer.produce(
                    topics.INCREMENTS,
                    attempt.value,
                    partition=attempt.key.shard,
                    headers=list(attempt.headers()),
                    on_delivery=on_delivery,
                )
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.5)
            except KafkaException as error:
                failures[attempt.key] = str(error)
                return
            else:
                return
