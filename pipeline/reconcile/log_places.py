"""Where things are in the log, without reading it: for holding the ledger against it."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

from pipeline import topics
from pipeline.groupless import first_since, groupless_consumer, read_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Consumer

    from schemas.addresses import KafkaAddress

AS_WORKERS_READ = {"isolation.level": "read_committed"}


class Places(Protocol):
    """What is asked of the log. Methods block, and raise TryAgainError when it is away."""

    def first_since(self, shards: Sequence[int], at_ms: int) -> dict[int, int]:
        """The first offset whose log time is at or after a moment, of the shards that have one."""
        ...

    def first_record(self, shard: int, start: int, end: int) -> int | None:
        """The offset of the first record from `start` up to, not including, `end`."""
        ...


class LogPlaces:
    """The increments in Kafka, read as workers do: without what aborted transactions wrote."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def first_since(self, shards: Sequence[int], at_ms: int) -> dict[int, int]:
        return first_since(self._consumer, topics.INCREMENTS, dict.fromkeys(shards, at_ms))

    def first_record(self, shard: int, start: int, end: int) -> int | None:
        ranges = {shard: (max(0, start), end)}
        try:
            for _, offset, _ in read_ranges(self._consumer, topics.INCREMENTS, ranges):
                return offset
        finally:
            self._consumer.unassign()
        return None


@contextmanager
def log_places(kafka: KafkaAddress) -> Iterator[LogPlaces]:
    """The log's places while the block runs. Entering never blocks."""
    with closing(groupless_consumer(kafka, AS_WORKERS_READ)) as consumer:
        yield LogPlaces(consumer)
