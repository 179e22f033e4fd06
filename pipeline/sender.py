"""Sends checked events to the topic: as JSON lines, or packed into frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipeline import topics
from pipeline.control import shard_plan
from pipeline.errors import TryAgainError
from pipeline.sharding import counter_partition, id_partition
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_DELIVERY_TIMEOUT_S = 60.0
_FRAME_COLUMNS = ("counter", "delta", "at", "member", "region", "id")

Headers = dict[str, str | bytes | None]


class Sender:
    """One idempotent client that waits for all replicas. Not thread-safe.

    Methods block while the client's bounded queue is full, and raise TryAgainError when Kafka is
    away. `unknown` counts events that Kafka did not confirm: it may have them or not.
    """

    def __init__(self, kafka: str) -> None:
        """Connects. Raises OperatorError when nobody has made the topic, or where it cannot be
        known to which partitions ids were sent before."""
        self.unknown = 0
        self._kafka = kafka
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 20,
                "delivery.timeout.ms": int(_DELIVERY_TIMEOUT_S * 1000),
                "log_level": 0,
            }
        )
        self._partitions = topics.made_partitions(kafka)
        plan = shard_plan.planned_rules(kafka)
        self._id_partitions = shard_plan.producers_id_partitions(
            plan, self._partitions, lambda: shard_plan.has_records(kafka, self._partitions)
        )

    def send_lines(self, lines: Sequence[bytes], columns: pa.Table) -> None:
        """Send lines as they are; row i of `columns` is what the decoder read in line i."""
        for line, partition in zip(lines, self._places(columns), strict=True):
            self._send(line, partition, events=1)

    def send_frames(self, columns: pa.Table) -> None:
        """Send the events of `columns` as one frame per partition."""
        places = np.array(self._places(columns), np.int64)
        for partition in np.unique(places).tolist():
            part = columns.take(np.flatnonzero(places == partition))
            frame = encode_frame({name: part[name].combine_chunks() for name in _FRAME_COLUMNS})
            headers: Headers = {"content-type": FRAME_CONTENT_TYPE}
            self._send(frame, partition, events=part.num_rows, headers=headers)

    def flush(self) -> None:
        """Wait until everything sent is confirmed or given up."""
        self.unknown += self._producer.flush(_DELIVERY_TIMEOUT_S)

    def _places(self, columns: pa.Table) -> list[int]:
        counters, ids = columns["counter"].to_pylist(), columns["id"].to_pylist()
        return [
            counter_partition(counter, 0, self._partitions)
            if id_ is None
            else id_partition(counter, id_, self._id_partitions)
            for counter, id_ in zip(counters, ids, strict=True)
        ]

    def _send(
        self, value: bytes, partition: int, *, events: int, headers: Headers | None = None
    ) -> None:
        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self.unknown += events

        while True:
            try:
                self._producer.produce(
                    topics.INCREMENTS,
                    value,
                    partition=partition,
                    headers=headers,
                    on_delivery=on_delivery,
                )
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.5)
            except KafkaException as error:
                raise TryAgainError(f"Kafka at {self._kafka} took no event: {error}") from error
            else:
                return
