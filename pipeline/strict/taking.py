"""Taking over a partition of strict counters: where to go on, with which states.

The committed offset is read first: whoever committed it had its states in the changelog before. So
the changelog read afterwards, to an end that has not moved, has everything up to there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from pipeline import topics
from pipeline.errors import ShardRefusedError
from pipeline.strict.owned import Recovering

if TYPE_CHECKING:
    from pipeline.partition_reader import PartitionReader
    from pipeline.strict.owned import OwnedPartition

log = logging.getLogger(__name__)

LOST_MAX = 10_000
"""So many records may be missing at the log's end, as after a power cut: their decisions stand, and
commands that take their offsets are not decided, so whoever sent them asks again with the same id.
If more are missing, the topic was made anew, and that would go on for too long."""


class Taken(NamedTuple):
    """A partition, and the offset to go on at."""

    owned: OwnedPartition
    position: int


async def take(
    reader: PartitionReader,
    partition: int,
    partitions: int,
    committed: int | None,
    writer: bytes,
) -> Taken:
    """The partition as the changelog has it. Reads Kafka; raises TryAgainError, and
    ShardRefusedError when its log was cut off before or behind what was decided."""
    owned = (await _recovered(reader, partition)).own(partition, partitions, writer)
    start, end = await reader.ends(topics.STRICT, partition)
    position = where_to_go_on(partition, committed, owned.through, start, end)
    owned.adopt(position)
    return Taken(owned, position)


def where_to_go_on(
    partition: int, committed: int | None, through: int, start: int, end: int
) -> int:
    """The next offset to decide, of a log from `start` up to `end`. Pure.

    Raises ShardRefusedError where commands are gone that nobody has decided, or where the log is
    not the one that was decided.
    """
    known = max(committed or 0, through + 1)
    if end + LOST_MAX < known:
        raise ShardRefusedError(
            partition,
            f"strict counters were decided up to offset {known - 1}, but {topics.STRICT} ends at "
            f"{end}: it was truncated or made anew; restore it, or delete it together with "
            f"{topics.STRICT_CHANGELOG}, and every strict counter begins at zero",
        )
    if end < known:
        log.warning(
            "partition %d of %s ends at %d, but %d was decided: what was decided stands",
            *(partition, topics.STRICT, end, known - 1),
        )
    # Kafka forgets the offsets of a group that was away for long, as it does commands.
    undecided = through + 1 if committed is None and through >= 0 else committed
    if undecided is not None:
        check_not_deleted(partition, undecided, start)
    return start if committed is None else min(committed, end)


def check_not_deleted(partition: int, undecided: int, start: int) -> None:
    """Raise ShardRefusedError if a log that begins at `start` has lost what is to be decided."""
    if undecided < start:
        raise ShardRefusedError(
            partition,
            f"what {topics.STRICT} had from offset {undecided} on was deleted, and nothing tells "
            f"that it was decided; it begins at {start} now. To go on without commands that were "
            "among it, which nobody was given an answer to, reset the offsets of group "
            f"{topics.STRICT_GROUP} to the earliest",
        )


async def _recovered(reader: PartitionReader, partition: int) -> Recovering:
    recovering = Recovering()
    offset, end = await reader.ends(topics.STRICT_CHANGELOG, partition)
    while offset < end:
        fetch = await reader.fetch(topics.STRICT_CHANGELOG, partition, offset)
        for key, value in zip(fetch.records.keys, fetch.records.values, strict=True):
            recovering.add(key, value)
        offset = fetch.next_offset
        if offset >= end:
            _, end = await reader.ends(topics.STRICT_CHANGELOG, partition)
    return recovering
