"""How old an answer is, and whether anything may be missing from it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.reads import FlushedShard
    from pipeline.rules import CountingRules

COMPLETE_WITHIN_MS = 30_000
"""A shard that was flushed longer ago may have counts that are not here: even an idle one is
flushed at every checkpoint."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """When the shard that was flushed longest ago was flushed; None when none ever was.

    `complete` is False when a shard has not been heard of for a while, or never.
    """

    at_ms: int | None
    staleness_ms: int | None
    complete: bool

    @property
    def text(self) -> str | None:
        return None if self.at_ms is None else rfc3339(self.at_ms)


def as_of(
    positions: Sequence[FlushedShard],
    now_ms: int,
    rules: CountingRules | None = None,
    partitions: int = 0,
) -> AsOf:
    """As of when cells are that were read after these positions.

    `rules` are those applied last and `partitions` how many are noted, where they were read: by
    them, shards that were never flushed are missed.
    """
    flushed = {shard.shard: shard.flushed_at_ms for shard in positions}
    shards = expected_shards(positions, rules, partitions)
    return oldest([flushed.get(shard) for shard in shards], now_ms, COMPLETE_WITHIN_MS)


def expected_shards(
    positions: Sequence[FlushedShard], rules: CountingRules | None, partitions: int
) -> range:
    """The shards there are, or are about to be, as far as ClickHouse knows.

    Those up to the last that was ever flushed, as many as the topic had when rules were applied
    first, for Kafka takes no partition away, and as many as are noted: `tally partitions` notes
    new ones before they are made, the leader those that others made.
    """
    flushed = max((shard.shard for shard in positions), default=-1) + 1
    return range(max(flushed, 0 if rules is None else rules.id_partitions, partitions))


def oldest(at_ms: Sequence[int | None], now_ms: int, complete_within_ms: int) -> AsOf:
    """As of when all shards are, given when each one is; None is one of which it is not known."""
    known_ms = [moment_ms for moment_ms in at_ms if moment_ms is not None]
    if not known_ms:
        return AsOf(None, None, complete=False)
    staleness_ms = max(0, now_ms - min(known_ms))
    none_is_missing = len(known_ms) == len(at_ms)
    return AsOf(min(known_ms), staleness_ms, none_is_missing and staleness_ms < complete_within_ms)
