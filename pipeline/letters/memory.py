"""Asks Kafka which refused places workers remember."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.groupless import groupless_consumer, partition_ends, read_ranges, value_of
from pipeline.letters.remembered import ChangelogPlaces

if TYPE_CHECKING:
    from collections.abc import Collection

    from confluent_kafka import Consumer

    from pipeline.clock import Clock
    from pipeline.letters.letter import LetterKey
    from pipeline.letters.remembered import Remembered
    from schemas.addresses import KafkaAddress

PATIENCE_S = 15.0
"""How long a checkpoint is waited for that a letter may belong to: they come every few seconds."""

_POLL_S = 0.2


def remembered(
    kafka: KafkaAddress, build: int, keys: Collection[LetterKey], clock: Clock
) -> dict[int, Remembered]:
    """What the shards of these letters remember. Reads their changelogs, as a recovery does.

    Blocks; raises TryAgainError when Kafka is away, or has no changelog of the build. A letter is
    written a moment before its place is in the changelog, so that is waited for, for a while.
    """
    deadline_s = clock.monotonic_s() + PATIENCE_S
    consumer = groupless_consumer(kafka)
    try:
        found = {}
        for shard in sorted({key.shard for key in keys}):
            asked = [key for key in keys if key.shard == shard]
            changelog = ChangelogPlaces()
            found[shard] = _read_on(consumer, build, shard, changelog)
            while any(map(found[shard].is_open, asked)) and clock.monotonic_s() < deadline_s:
                time.sleep(_POLL_S)
                found[shard] = _read_on(consumer, build, shard, changelog)
        return found
    finally:
        consumer.close()


def _read_on(consumer: Consumer, build: int, shard: int, changelog: ChangelogPlaces) -> Remembered:
    topic = topics.changelog(build)
    start, end = partition_ends(consumer, topic, shard)
    for *_, message in read_ranges(
        consumer, topic, {shard: (max(start, changelog.next_offset), end)}
    ):
        if key := message.key():
            changelog.add(key, value_of(message))
    changelog.next_offset = end
    # The log's ends come last: they are not before the position then.
    return changelog.remembered(*partition_ends(consumer, topics.INCREMENTS, shard))
