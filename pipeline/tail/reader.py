"""Follows all partitions of the log from outside of any consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from pipeline import topics
from pipeline.errors import OperatorError, TryAgainError
from pipeline.groupless import (
    groupless_consumer,
    headers_of,
    next_messages,
    partition_ends,
    value_of,
)
from pipeline.tail.look_back import look_back
from schemas.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.clock import Clock
    from schemas.addresses import KafkaAddress

_MESSAGES_MAX = 500
_POLL_S = 0.25
"""The longest wait for records; Ctrl-C is heard in between."""

_PARTITIONS_EVERY_S = 10.0
"""How often new partitions are looked for."""


class TailReader:
    """Records as they come, partition by partition; a context manager that disconnects at its end.

    Raises TryAgainError when Kafka is away at the start, OperatorError when nobody has made the
    topic. Later it waits for a Kafka that is away, and goes on by itself.
    """

    def __init__(self, kafka: KafkaAddress, clock: Clock) -> None:
        self._kafka = kafka
        self._admin = topics.admin_client(kafka)
        self._clock = clock
        self._consumer = groupless_consumer(kafka)
        self._partitions = 0
        self._looked_at_s = clock.monotonic_s()
        self._at_end: set[int] = set()

    def start(self, last: int | None, *, control: bool) -> int:
        """Begin with the last `last` records of each partition, or with all there are for None.

        Control records count as records only if they are wanted. Blocks. Returns how many
        partitions there are.
        """
        self._partitions = self._count_partitions()
        if not self._partitions:
            raise OperatorError(
                f"topic {topics.INCREMENTS} does not exist yet; start a worker first "
                "(`tally up` runs one)"
            )
        starts = self._starts(last, control)
        self._consumer.assign(
            [TopicPartition(topics.INCREMENTS, number, start) for number, start in starts.items()]
        )
        return self._partitions

    def read(self, *, follow: bool) -> Iterator[Records]:
        """What there is and, to follow, what comes, for ever; without, up to the ends."""
        while follow or len(self._at_end) < self._partitions:
            messages = next_messages(self._consumer, _MESSAGES_MAX, _POLL_S)
            yield from as_records(self._without_ends(messages))
            if follow:
                self._look_for_partitions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _starts(self, last: int | None, control: bool) -> dict[int, int]:
        partitions = range(self._partitions)
        if last is None:
            return dict.fromkeys(partitions, OFFSET_BEGINNING)
        # Ends are asked for now, so that "from now on" does not mean "from the first fetch on".
        ends = {
            number: partition_ends(self._consumer, topics.INCREMENTS, number)
            for number in partitions
        }
        if last and not control:
            return look_back(self._consumer, topics.INCREMENTS, ends, last)
        return {number: max(first, end - last) for number, (first, end) in ends.items()}

    def _without_ends(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            error, partition = message.error(), message.partition()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF and partition is not None:
                self._at_end.add(partition)
            elif not error.retriable():
                raise TryAgainError(f"Kafka at {self._kafka} did not let the log be read: {error}")

    def _look_for_partitions(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_at_s < _PARTITIONS_EVERY_S:
            return
        self._looked_at_s = now_s
        try:
            count = self._count_partitions()
        except TryAgainError:
            return  # It is away for now; reading waits for it as well.
        new = range(self._partitions, count)
        if new:
            self._consumer.incremental_assign(
                [TopicPartition(topics.INCREMENTS, number, OFFSET_BEGINNING) for number in new]
            )
            self._partitions = count

    def _count_partitions(self) -> int:
        return topics.partition_counts(self._admin).get(topics.INCREMENTS, 0)


def as_records(messages: Iterable[Message]) -> Iterator[Records]:
    """Messages as the decoder takes them: each partition's together, in log order. Pure."""
    by_partition: dict[int, list[Message]] = {}
    for message in messages:
        by_partition.setdefault(message.partition() or 0, []).append(message)
    for partition, part in by_partition.items():
        yield Records(
            partition=partition,
            offsets=np.array([message.offset() for message in part], np.int64),
            timestamps_ms=np.array([message.timestamp()[1] for message in part], np.int64),
            keys=[None] * len(part),
            values=[value_of(message) for message in part],
            headers=[headers_of(message) for message in part],
        )
