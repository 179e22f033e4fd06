"""Writes single records to chosen partitions and waits until Kafka has confirmed each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipeline.errors import TryAgainError
from pipeline.kafka_clients import librdkafka

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pipeline.clock import Clock
    from schemas.addresses import KafkaAddress

_DELIVERY_TIMEOUT_S = 20.0
_RETRY_S = 0.3

# A partition that was made a moment ago may not be known everywhere yet.
_NOT_YET = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})


class LogRecord(NamedTuple):
    """A record for one partition."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None = None
    kind: str | None = None


def write_records(kafka: KafkaAddress, records: Sequence[LogRecord], clock: Clock) -> list[int]:
    """Append each record to its partition; returns the timestamps the log gave them, in ms.

    Blocks until all replicas have them; raises TryAgainError naming the partitions that were not
    confirmed, which may have them or not.
    """
    deadline_s = clock.monotonic_s() + _DELIVERY_TIMEOUT_S
    timestamps_ms: dict[int, int] = {}
    while True:
        waiting = [number for number in range(len(records)) if number not in timestamps_ms]
        failed = _write(kafka, records, waiting, timestamps_ms)
        if not failed:
            return [timestamps_ms[number] for number in range(len(records))]
        lasting = {code for code in failed.values() if code not in _NOT_YET}
        if lasting or clock.monotonic_s() > deadline_s:
            places = ", ".join(
                f"{records[number].topic}/{records[number].partition}" for number in failed
            )
            reason = KafkaError(next(iter(lasting or set(failed.values())))).str()
            raise TryAgainError(f"Kafka at {kafka} did not confirm a record in {places}: {reason}")
        time.sleep(_RETRY_S)


def _write(
    kafka: KafkaAddress,
    records: Sequence[LogRecord],
    wanted: Sequence[int],
    timestamps_ms: dict[int, int],
) -> dict[int, int]:
    """Fills in the timestamps of what was confirmed; returns the error codes of the rest."""
    failed = dict.fromkeys(wanted, KafkaError._MSG_TIMED_OUT)

    def on_delivery(number: int) -> Callable[[KafkaError | None, Message], None]:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed[number] = error.code()
                return
            del failed[number]
            timestamps_ms[number] = message.timestamp()[1]

        return told

    # Made anew each time, because a client keeps what it knows of partitions for minutes.
    producer = Producer(
        librdkafka(
            kafka,
            {
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "delivery.timeout.ms": int(_DELIVERY_TIMEOUT_S * 1000),
            },
        )
    )
    for number in wanted:
        record = records[number]
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                headers={"tally-kind": record.kind} if record.kind else None,
                on_delivery=on_delivery(number),
            )
        except KafkaException as error:
            failed[number] = error.args[0].code()
    producer.flush(_DELIVERY_TIMEOUT_S)
    return failed
