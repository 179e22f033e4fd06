"""From when on minutes are complete, so that sums of them say something. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pipeline.rollup.retention import KEPT_MIN_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.families import Families

DAY_MS = 86_400_000


def kept_since_ms(history: Sequence[tuple[int, Families]], now_ms: int) -> int:
    """The beginning of the first day of which no family's minutes can have been let go of.

    `history` has every retention with the time since which it holds, oldest first: a longer one
    does not bring back what a shorter one before it has dropped. Without any the defaults hold.
    `now_ms` is the least log time, or the clock where that is behind.
    """
    ends = [after for (_, _), (after, _) in pairwise(history)]
    gone_ms = [
        min(until_ms, now_ms) - shortest_ms(families)
        for (_, families), until_ms in zip(history, [*ends, now_ms], strict=True)
    ]
    reached_ms = max(gone_ms)
    return max(0, reached_ms - reached_ms % DAY_MS)


def shortest_ms(families: Families) -> int:
    """How long the minutes of every family are kept at least."""
    kept = [one.retention.minute_ms for one in (families.default, *families.families.values())]
    # What is kept for ever is never let go of.
    return max(KEPT_MIN_MS, min((one for one in kept if one is not None), default=2**62))
