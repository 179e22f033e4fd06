"""How old an answer from the cells is, and whether anything may be missing from it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.reads.counts import COMPLETE_WITHIN_MS
from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.reads import FlushedShard


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


def as_of(positions: Sequence[FlushedShard], now_ms: int) -> AsOf:
    """As of when cells are that were read after these positions."""
    flushed = {shard.shard: shard.flushed_at_ms for shard in positions}
    if not flushed:
        return AsOf(None, None, complete=False)
    oldest_ms = min(flushed.values())
    staleness_ms = max(0, now_ms - oldest_ms)
    none_is_missing = len(flushed) == max(flushed) + 1
    return AsOf(oldest_ms, staleness_ms, none_is_missing and staleness_ms < COMPLETE_WITHIN_MS)
