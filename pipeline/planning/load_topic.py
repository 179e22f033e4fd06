"""The topic `tally.load`, read from its end or from a few seconds before, outside of any group."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

from pipeline import topics
from pipeline.errors import BadInputError, TryAgainError
from pipeline.groupless import (
    first_since,
    groupless_consumer,
    partition_ends,
    read_ranges,
    value_of,
)
from pipeline.planning.load import decode
from pipeline.planning.recent import SILENT_MS_MAX, Load, RecentReports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from confluent_kafka import Message

    from pipeline.planning.load import LoadReport
    from schemas.addresses import KafkaAddress

_MESSAGES_AT_ONCE = 1_000
_MESSAGES_MAX = 10_000
_FETCH_WAIT_MS = 500


class LoadTopic:
    """Reports as they come, from now on. Not thread-safe."""

    def __init__(self, kafka: KafkaAddress) -> None:
        """Never blocks."""
        settings: dict[str, int | str] = {
            "fetch.wait.max.ms": _FETCH_WAIT_MS,
            "auto.offset.reset": "latest",
        }
        self._consumer = groupless_consumer(kafka, settings)
        self._consumer.assign([TopicPartition(topics.LOAD, 0, OFFSET_END)])

    def reports(self) -> list[LoadReport]:
        """What has come since the last call; what is no report is passed over.

        Hardly blocks; raises TryAgainError. While Kafka is away nothing comes.
        """
        found: list[LoadReport] = []
        try:
            for _ in range(_MESSAGES_MAX // _MESSAGES_AT_ONCE):
                messages = self._consumer.consume(_MESSAGES_AT_ONCE, timeout=0)
                found += _reports(messages)
                if not messages:
                    break
        except KafkaException as error:
            raise TryAgainError(f"Kafka did not let {topics.LOAD} be read: {error}") from error
        return found

    def close(self) -> None:
        """Waits for what the client is doing."""
        self._consumer.close()


def load_now(kafka: KafkaAddress, now_ms: int, delivery_p99_ms_max: float) -> Load:
    """The producers' load by what they reported in the last seconds.

    Blocks; raises TryAgainError when Kafka is away. None where nobody has made the topic.
    """
    if topics.LOAD not in topics.partition_counts(topics.admin_client(kafka)):
        return Load()
    recent = RecentReports()
    with contextlib.closing(groupless_consumer(kafka)) as consumer:
        _, end = partition_ends(consumer, topics.LOAD, 0)
        start = first_since(consumer, topics.LOAD, {0: now_ms - SILENT_MS_MAX}).get(0, end)
        messages = (
            message for *_, message in read_ranges(consumer, topics.LOAD, {0: (start, end)})
        )
        for report in _reports(messages):
            recent.add(report, now_ms)
    return recent.load(now_ms, delivery_p99_ms_max)


def _reports(messages: Iterable[Message]) -> Iterator[LoadReport]:
    for message in messages:
        value = None if message.error() else value_of(message)
        if value is not None:
            with contextlib.suppress(BadInputError):
                yield decode(value)
