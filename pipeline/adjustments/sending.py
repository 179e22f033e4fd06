"""Puts adjustments into the log, and waits for Kafka's word on each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipeline import topics
from pipeline.kafka_clients import librdkafka
from pipeline.lanes import KIND_HEADER
from pipeline.sharding import counter_partition
from schemas.adjustments import ADJUSTMENT_KIND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.addresses import KafkaAddress
    from schemas.adjustments import Adjustment

DELIVERY_TIMEOUT_S = 20.0
_LINGER_MS = 5


@dataclass(slots=True)
class Sent:
    """What became of adjustments: the last offset by partition, and those nobody knows of.

    `unknown` has why, by the number of the adjustment: the log may have it or not.
    """

    places: dict[int, int] = field(default_factory=dict)
    unknown: dict[int, str] = field(default_factory=dict)


def send(kafka: KafkaAddress, adjustments: Sequence[Adjustment]) -> Sent:
    """Append each to the partition of its counter, in order. Blocks until Kafka's word on each.

    Raises TryAgainError or OperatorError, having sent nothing, when Kafka is away or has no log.
    """
    partitions = topics.made_partitions(kafka)
    sent = Sent(unknown=dict.fromkeys(range(len(adjustments)), "no answer in time"))
    producer = Producer(
        librdkafka(
            kafka,
            {
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": _LINGER_MS,
                "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            },
        )
    )
    for number, adjustment in enumerate(adjustments):
        partition = counter_partition(adjustment.counter, 0, partitions)
        _produce(producer, partition, number, adjustment, sent)
    producer.flush(DELIVERY_TIMEOUT_S + 1)
    return sent


def _produce(
    producer: Producer, partition: int, number: int, adjustment: Adjustment, sent: Sent
) -> None:
    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            sent.unknown[number] = error.str()
            return
        del sent.unknown[number]
        offset = message.offset()
        if offset is not None:
            sent.places[partition] = max(offset, sent.places.get(partition, -1))

    while True:
        try:
            producer.produce(
                topics.INCREMENTS,
                adjustment.bytes(),
                adjustment.counter.encode(),
                partition,
                headers={KIND_HEADER: ADJUSTMENT_KIND},
                on_delivery=on_delivery,
            )
        except BufferError:
            producer.poll(0.5)
        except KafkaException as error:
            sent.unknown[number] = str(error)
            return
        else:
            producer.poll(0)
            return
