# ruff: noqa: S608 - what is put into statements are the constants of this file and whole numbers.
"""The registers of some counters' members: which windows there are, and their union.

The counters are the bound parameter `counters`, a region is `region`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.reads import live
from pipeline.reads.cell_sql import within
from pipeline.reads.spans import Span
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.reads.taking import Window
    from schemas.rules import Grain

_START: dict[Grain, str] = {
    "1m": "toStartOfMinute(window)",
    "1h": "toStartOfHour(window)",
    "1d": "toStartOfDay(window)",
}


def parameters(counters: Sequence[str], region: str | None) -> dict[str, Any]:
    """What every statement here has bound to it."""
    bound: dict[str, Any] = {"counters": list(counters)}
    return bound if region is None else {**bound, "region": region}


def windows(span: Span, region: str | None) -> str:
    """Grain, counter and start of every window that begins in the span."""
    return " UNION ALL ".join(
        f"SELECT DISTINCT '{grain}' AS grain, counter, toUnixTimestamp(window) "
        f"FROM tally.distinct_{grain} WHERE {_where(region)} AND {within(span)}"
        for grain in GRAIN_MS
    )


def united(
    span: Span, by: Grain | None, region: str | None, replaced: Mapping[str, frozenset[Window]]
) -> tuple[str, dict[str, Any]]:
    """The union of the windows that overlap the span, all in one or by a grain, and parameters.

    Rows are the start (0 for all in one), the estimate and its bounds. Left out are windows that
    finer ones stand for, of the counters for which they do, and those coarser than `by`.
    """
    bound: dict[str, Any] = {}
    pieces = []
    for grain, size_ms in GRAIN_MS.items():
        if by is not None and size_ms > GRAIN_MS[by]:
            continue
        start = "0" if by is None else f"toUnixTimestamp({_START[by]})"
        overlapping = Span(max(0, span.since_ms - size_ms + 1), span.until_ms)
        without, names = _without(grain, replaced)
        bound |= names
        pieces.append(
            f"SELECT toUInt32({start}) AS at, precision, registers FROM tally.distinct_{grain} "
            f"WHERE {_where(region)} AND {within(overlapping)}{without}"
        )
    return _estimates(" UNION ALL ".join(pieces)), bound


def _where(region: str | None) -> str:
    where = f"{live.ALL} AND counter IN {{counters:Array(String)}}"
    return where if region is None else f"{where} AND region = {{region:String}}"


def _without(
    grain: Grain, replaced: Mapping[str, frozenset[Window]]
) -> tuple[str, dict[str, list[str]]]:
    """At most two windows of a grain are cut: conditions, and the counters they are about."""
    counters: dict[int, list[str]] = {}
    for counter, cut in replaced.items():
        for other, at_ms in cut:
            if other == grain:
                counters.setdefault(at_ms, []).append(counter)
    names = {f"cut_{grain}_{at_ms // 1000}": found for at_ms, found in counters.items()}
    conditions = [
        f" AND NOT (window = toDateTime({at_ms // 1000}, 'UTC') "
        f"AND has({{cut_{grain}_{at_ms // 1000}:Array(String)}}, counter))"
        for at_ms in counters
    ]
    return "".join(conditions), names


def _estimates(registers: str) -> str:
    """As the views uniques_* do it: of several precisions, all are folded to the least."""
    alike = f"SELECT at, precision, maxMap(registers) AS alike FROM ({registers}) GROUP BY ALL"
    folded = (
        "arrayReduce('maxMap', arrayMap(part -> tallyFold(part.2, part.1, least), "
        "groupArray((precision, alike))))"
    )
    union = (
        "SELECT at, min(precision) AS least, "
        f"if(least = max(precision), maxMap(alike), {folded}) AS united FROM ({alike}) GROUP BY at"
    )
    return (
        "SELECT at, greatest(tallyWhole(estimate), low) AS uniques, "
        "tallyWhole(tallyDistinctLow(estimate, united, least)) AS low, "
        "tallyWhole(tallyDistinctHigh(estimate, united, least)) AS high "
        f"FROM (SELECT *, tallyDistinct(united, least) AS estimate FROM ({union})) ORDER BY at"
    )
