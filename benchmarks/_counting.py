"""The counting core as the benchmarks call it: the one place that knows its signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.changelog import ChangelogRecord, checkpoint_records
from pipeline.decode import Decoded, decode
from pipeline.recovery import RecoveredShard
from pipeline.shard import Fetched

if TYPE_CHECKING:
    from pipeline.shard import Shard, ShardSnapshot
    from schemas.records import Records

GENERATION = 1


def absorb(shard: Shard, records: Records, decoded: Decoded) -> None:
    """Count a decoded fetch as a worker does. Raises AssertionError if a row was refused."""
    next_offset = int(records.offsets[-1]) + 1
    fetched = Fetched(records.offsets, records.timestamps_ms, next_offset)
    misplaced = shard.absorb_columns(decoded.columns, fetched)
    assert not misplaced
    assert not decoded.refused


def decode_and_absorb(shard: Shard, records: Records) -> None:
    """The path of a worker between the fetch and the flush."""
    absorb(shard, records, decode(records))


def encode(snapshot: ShardSnapshot) -> list[ChangelogRecord]:
    """What a checkpoint writes to the changelog."""
    return list(checkpoint_records(snapshot, GENERATION))


def recover(changelog: Records, committed: int) -> Shard:
    """The shard that a changelog holds."""
    recovered = RecoveredShard(0)
    recovered.add(0, len(changelog), changelog)
    return recovered.resume(committed)
