# ruff: noqa: S608 - what is put into statements are the constants of this file and whole numbers.
"""Adjustments beside what cells add up to: exact at once in every mode, and for ever.

They are never mixed with cells before windows are chosen, because a day with an adjustment of its
own has more than its hours add up to, and would look as if hours were gone.

An adjustment is in a window, or in a time asked for, if all of its own window is. One without a
window is in the total of all time alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.reads import live
from pipeline.reads.spans import FOREVER_MS, Span, window_of
from pipeline.reads.taking import NOUNS
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Collection

    from pipeline.reads.taking import Window
    from schemas.rules import Grain

MARK = "adjusted "
"""Before the grain of adjustments where they stand beside cells."""

_SIZES = ", ".join(f"'{grain}'" for grain in GRAIN_MS)
_SIZES_S = ", ".join(str(size_ms // 1000) for size_ms in GRAIN_MS.values())
_UNTIL = f"toUnixTimestamp(window) + transform(toString(grain), [{_SIZES}], [{_SIZES_S}], 0)"


def beside_cells() -> str:
    """The adjustments of the bound `counters`, in the columns of `cell_sql`.

    Where cells have duplicates these have how many they are.
    """
    return (
        f"SELECT concat('{MARK}', toString(grain)) AS grain, counter, toString(region) AS region, "
        "window, '' AS replica, shard, p, n, 1::Int128 AS duplicates FROM tally.held_adjustments "
        f"WHERE {live.ALL} AND counter IN {{counters:Array(String)}}"
    )


def of_family(span: Span, columns: str, where: str) -> str:
    """Columns of the adjustments of the bound `family` that are in a span."""
    inside = f"toUnixTimestamp(window) >= {-(-span.since_ms // 1000)}"
    if span.until_ms < FOREVER_MS:
        inside += f" AND {_UNTIL} <= {span.until_ms // 1000}"
    return (
        f"SELECT {columns} FROM tally.held_adjustments WHERE {live.ALL} "
        f"AND family = {{family:String}} AND grain != '' AND {inside} {where}"
    )


@dataclass(slots=True)
class Adjusted:
    """The adjustments under one key, summed by what they are about: a window, or the total."""

    parts: Counter[tuple[Grain | None, int]] = field(default_factory=Counter)
    numbers: Counter[tuple[Grain | None, int]] = field(default_factory=Counter)

    def add(self, grain: Grain | None, at_ms: int, by: int, number: int) -> None:
        """Take in some of one window, or of the total."""
        self.parts[grain, at_ms] += by
        self.numbers[grain, at_ms] += number

    def of(self, span: Span | None) -> tuple[int, int]:
        """How many are in a span, or in all time, and what they add up to."""
        inside = [part for part in self.parts if _is_in(part, span)]
        return sum(self.numbers[one] for one in inside), sum(self.parts[one] for one in inside)

    def windows(self, by: Grain, span: Span | None, coarse: Collection[Window]) -> Counter[int]:
        """What they add to windows of a grain; `coarse` are windows that cannot be divided."""
        found: Counter[int] = Counter()
        for (grain, at_ms), amount in self.parts.items():
            if grain is None or not _is_in((grain, at_ms), span):
                continue
            hidden = any(
                GRAIN_MS[by] < GRAIN_MS[size] and window_of(at_ms, size) == start_ms
                for size, start_ms in coarse
            )
            if GRAIN_MS[grain] <= GRAIN_MS[by] and not hidden:
                found[window_of(at_ms, by)] += amount
        return found

    def remarks(self, by: Grain | None, span: Span | None) -> list[str]:
        """That some are in the sum, but in none of the windows beside it."""
        coarser = [
            part
            for part in self.parts
            if _is_in(part, span) and by and (not part[0] or GRAIN_MS[part[0]] > GRAIN_MS[by])
        ]
        if not by or not coarser:
            return []
        amount = sum(self.parts[one] for one in coarser)
        return [f"adjustments of {amount:+,} are in the total, but in no single {NOUNS[by]}"]


def _is_in(part: tuple[Grain | None, int], span: Span | None) -> bool:
    grain, at_ms = part
    if span is None:
        return True
    return (
        grain is not None
        and at_ms >= span.since_ms
        and (span.until_ms == FOREVER_MS or at_ms + GRAIN_MS[grain] <= span.until_ms)
    )
