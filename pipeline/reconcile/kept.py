"""From when on a grain is complete, so that sums of it say something. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pipeline.rollup.retention import KEPT_MIN_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.reconcile.compared import Flushed, Owner
    from pipeline.rollup.retention import Grain
    from schemas.families import Families
    from schemas.rules import Retention

DAY_MS = 86_400_000


def logs_ms(flushed: Mapping[Owner, Flushed]) -> dict[int, int]:
    """How far each shard is in log time: the furthest of its incarnations, others have ended."""
    found: dict[int, int] = {}
    for owner, one in flushed.items():
        if one.log_ms > 0:
            found[owner.shard] = max(one.log_ms, found.get(owner.shard, 0))
    return found


def kept_since_ms(history: Sequence[tuple[int, Families]], now_ms: int, grain: Grain = "1m") -> int:
    """The beginning of the first day of which no family's grain can have been let go of.

    `history` has every retention with the time since which it holds, oldest first: a longer one
    does not bring back what a shorter one before it has dropped. Without any the defaults hold.
    `now_ms` is the least log time, or the clock where that is behind.
    """
    ends = [after for (_, _), (after, _) in pairwise(history)]
    gone_ms = [
        min(until_ms, now_ms) - shortest_ms(families, grain)
        for (_, families), until_ms in zip(history, [*ends, now_ms], strict=True)
    ]
    reached_ms = max(gone_ms)
    return max(0, reached_ms - reached_ms % DAY_MS)


def shortest_ms(families: Families, grain: Grain = "1m") -> int:
    """How long a grain of every family is kept at least."""
    every = (families.default, *families.families.values())
    kept = [_kept_ms(one.retention, grain) for one in every]
    # What is kept for ever is never let go of.
    return max(KEPT_MIN_MS, min((one for one in kept if one is not None), default=2**62))


def _kept_ms(retention: Retention, grain: Grain) -> int | None:
    by_grain = {"1m": retention.minute_ms, "1h": retention.hour_ms, "1d": retention.day_ms}
    return by_grain[grain]
