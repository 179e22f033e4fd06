"""Rankings where a family has sketches: of the names that may lead, cells and estimates added up.

A sketch has no list of its counters. Names come from the summaries of the heaviest, which miss none
that has more than their error, and from the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.reads import estimating, frequency_sql, heavy_sql
from pipeline.reads.applied_rules import newest_rules
from pipeline.reads.estimating import Bounds
from pipeline.reads.exact_ranking import ExactSource
from pipeline.reads.ranking import Place, Row, ahead_of
from pipeline.reads.sketched import Sketch, in_hours, open_since_s
from pipeline.reads.spans import FOREVER_MS, Span
from pipeline.rules import CountingRules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.reads.estimating import Amounts
    from pipeline.reads.ranking import Scope
    from pipeline.reads.reads import Reads

CELLS_MORE = 100
"""So many more counters with cells are looked at than are asked for: estimates change places."""


@dataclass(frozen=True, slots=True)
class _Names:
    """Who may lead, as a query and as it was answered, and what their cells have."""

    query: str
    bound: Mapping[str, Any]
    counters: list[str]


class SketchedSource:
    """A Source: sums of cells and estimates. Where there are no sketches, it is the exact one."""

    def __init__(self, reads: Reads, sketches: Sequence[Sketch]) -> None:
        """`sketches` are those that the family may be in, in the time asked for."""
        self._reads = reads
        self._sketches = sketches
        self._exact = ExactSource(reads)

    def greatest(self, scope: Scope, k: int) -> Sequence[Row]:
        """As Source says."""
        if not self._sketches:
            return self._exact.greatest(scope, k)
        known = {row.counter: row.count for row in self._exact.greatest(scope, k + CELLS_MORE)}
        names = self._names(scope)
        known |= self._exact.counts(scope, names.query, names.bound)
        rows = self._rows(scope, sorted({*known, *names.counters}), known)
        return sorted((row for row in rows if row.count > 0), key=ahead_of)[:k]

    def place(self, scope: Scope, counter: str) -> Place:
        """As Source says. Of counters that are in sketches alone only the heaviest are ranked."""
        if not self._sketches:
            return self._exact.place(scope, counter)
        names = self._names(scope)
        known = self._exact.counts(scope, names.query, names.bound)
        known[counter] = self._exact.count(scope, counter)
        rows = self._rows(scope, sorted({counter, *names.counters}), known)
        [own] = [row for row in rows if row.counter == counter]
        others = sorted((row for row in rows if row.count > 0 and row != own), key=ahead_of)
        cells = self._exact.around(scope, own, names.query, names.bound)
        above = [row for row in others if ahead_of(row) < ahead_of(own)]
        below = others[len(above) :]
        is_ranked = own.count > 0
        ahead = 0 if cells.rank is None else cells.rank - 1
        near_above = [row for row in (*above[-1:], cells.above) if row is not None]
        near_below = [row for row in (*below[:1], cells.below) if row is not None]
        return Place(
            own,
            len(above) + ahead + 1 if is_ranked else None,
            len(others) + cells.of,
            max(near_above, key=ahead_of, default=None),
            min(near_below, key=ahead_of, default=None),
        )

    def _names(self, scope: Scope) -> _Names:
        rules = newest_rules(self._reads) or CountingRules()
        bound = self._bound(scope)
        query = heavy_sql.candidates(
            _span(scope, self._reads.now_ms()),
            lateness_ms=rules.of(f"{scope.family}:").lateness_ms,
            open_s=open_since_s(self._reads),
            region=scope.region,
        )
        return _Names(query, bound, [str(name) for (name,) in self._reads.rows(query, bound)])

    def _bound(self, scope: Scope) -> dict[str, Any]:
        bound: dict[str, Any] = {
            "groups": sorted({sketch.family for sketch in self._sketches}),
            "family": scope.family,
        }
        return bound if scope.region is None else {**bound, "region": scope.region}

    def _rows(self, scope: Scope, counters: list[str], cells: Mapping[str, int]) -> list[Row]:
        from sketches.frequency import buckets_of  # noqa: PLC0415 - brings numpy and pyarrow

        bounds = [Bounds(*[cells.get(counter, 0)] * 3) for counter in counters]
        removed = 0
        for sketch in self._sketches:
            buckets = self._whole(scope, sketch)
            first = [buckets[place] for place in buckets if place < sketch.width]
            total = sum(p for p, _ in first), sum(n for _, n in first)
            places = buckets_of(counters, sketch.width)
            more = estimating.estimate(sketch.width, places, buckets, total)
            bounds = [one + other for one, other in zip(bounds, more, strict=True)]
            removed += total[1]
        weights = {} if removed else self._weights(scope)
        return [
            Row(counter, _nearer(known, cells.get(counter, 0), weights.get(counter)), *known.both)
            for counter, known in zip(counters, bounds, strict=True)
        ]

    def _weights(self, scope: Scope) -> dict[str, int]:
        """What the heaviest have for certain, where that can be told of the time asked for."""
        query = heavy_sql.weights(_span(scope, self._reads.now_ms()), region=scope.region)
        if query is None:
            return {}
        rows = self._reads.rows(query, self._bound(scope))
        return {str(counter): int(weight) for counter, weight in rows}

    def _whole(self, scope: Scope, sketch: Sketch) -> dict[int, Amounts]:
        bound: dict[str, Any] = {
            "family": sketch.family,
            "width": sketch.width,
            "open_s": open_since_s(self._reads),
        }
        if scope.region is not None:
            bound["region"] = scope.region
        query = frequency_sql.whole(in_hours(scope.pieces), scope.region)
        rows = self._reads.rows(query, bound)
        return {int(bucket): (int(p), int(n)) for bucket, p, n in rows}


def _nearer(known: Bounds, cells: int, weight: int | None) -> int:
    """What a counter is ranked by: its weight beside its cells where it has one, within bounds."""
    return known.value if not weight else min(max(cells + weight, known.low), known.high)


def _span(scope: Scope, now_ms: int) -> Span:
    """From the first window to the end of the last; an open time ends now."""
    since_ms = min(piece.span.since_ms for piece in scope.pieces)
    until_ms = max(piece.span.until_ms for piece in scope.pieces)
    return Span(since_ms, max(since_ms, now_ms) if until_ms == FOREVER_MS else until_ms)
