"""Finds dead letters in their topic, which alone has their whole bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.dead_letters import TOPIC
from pipeline.groupless import (
    first_since,
    groupless_consumer,
    headers_of,
    partition_ends,
    read_ranges,
    value_of,
)
from pipeline.letters.letter import read_letter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from confluent_kafka import Consumer

    from pipeline.letters.letter import LetterKey, StoredLetter
    from schemas.addresses import KafkaAddress

_PARTITION = 0

# A letter is written after its record. The topic has the worker's clock and the record the
# broker's, so the search begins well before; what is not there is looked for from the start.
_CLOCK_MARGIN_MS = 3_600_000


class LetterTopic:
    """The topic of one Kafka. Searching blocks, and raises TryAgainError when Kafka is away."""

    def __init__(self, kafka: KafkaAddress) -> None:
        self._kafka = kafka

    def find(self, wanted: Iterable[LetterKey]) -> Iterator[StoredLetter]:
        """Each wanted letter that the topic has, once, in the topic's order.

        Reads on as the caller takes them, so it holds a few at a time whatever their number.
        """
        missing = set(wanted)
        if not missing:
            return
        consumer = groupless_consumer(self._kafka)
        try:
            first, end = partition_ends(consumer, TOPIC, _PARTITION)
            earliest_ms = min(key.log_ms for key in missing) - _CLOCK_MARGIN_MS
            start = _offset_at(consumer, earliest_ms, end)
            for part in ((start, end), (first, start)):
                for *_, message in read_ranges(consumer, TOPIC, {_PARTITION: part}):
                    letter = read_letter(value_of(message), headers_of(message))
                    if letter is not None and letter.key in missing:
                        missing.discard(letter.key)
                        yield letter
                    if not missing:
                        return
        finally:
            consumer.close()


def _offset_at(consumer: Consumer, at_ms: int, end: int) -> int:
    """The first offset that is not older, or the end."""
    return min(first_since(consumer, TOPIC, {_PARTITION: at_ms}).get(_PARTITION, end), end)
