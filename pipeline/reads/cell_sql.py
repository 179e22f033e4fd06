# ruff: noqa: S608 - what is put into statements are the constants of this file and whole numbers.
"""The cells of some counters as one relation, from the views or from what was rolled up.

Its columns are grain, counter, region, window, replica, shard, p, n, duplicates. The counters are
the bound parameter `counters`; of lifetime totals the window is 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.reads import live

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.spans import Piece, Span

_WHERE = f"{live.ALL} AND counter IN {{counters:Array(String)}}"
_VALUES = "p, n, duplicates"
_MONTHS = "counter, region, slot_month, replica, shard"

FOLDED = f"SELECT slot_month FROM tally.cells_life WHERE {_WHERE}"
"""The months that were added to lifetime totals, after which their days may go."""

FORGOTTEN = (
    "SELECT toUnixTimestamp(toDateTime(max(month) + INTERVAL 1 MONTH, 'UTC')) * (count() > 0) "
    "FROM (SELECT month FROM ("
    "SELECT slot_month AS month, p AS life_p, n AS life_n, 0::Int128 AS day_p, 0::Int128 AS day_n "
    f"FROM tally.merged_life WHERE {_WHERE} AND slot_month IN ({FOLDED}) UNION ALL "
    "SELECT toStartOfMonth(slot_day), 0::Int128, 0::Int128, p, n "
    f"FROM tally.merged_1d WHERE {_WHERE} AND toStartOfMonth(slot_day) IN ({FOLDED})"
    ") GROUP BY month HAVING sum(life_p) > sum(day_p) OR sum(life_n) > sum(day_n))"
)
"""When the last month ends whose lifetime total has more than its days; 0 if there is none."""


def cells(pieces: Sequence[Piece]) -> str:
    """Exact at every moment: the greater of what was rolled up and what finer windows add up to."""
    return " UNION ALL ".join(
        _piece(grain, inside, f"tally.merged_{grain}")
        for grain, inside in _by_grain(pieces).items()
    )


def rolled_up_cells(pieces: Sequence[Piece]) -> str:
    """As they were rolled up last, which no minute has to be read for. Pieces of 1m have none."""
    return " UNION ALL ".join(
        _piece(grain, inside, f"({_rolled_life() if grain == 'life' else _rolled(grain, inside)})")
        for grain, inside in _by_grain(pieces).items()
    )


def _by_grain(pieces: Sequence[Piece]) -> dict[str, str]:
    """Which windows of each grain. Pieces never overlap, so those of a grain are read together:
    each source more is as long for ClickHouse to plan as all that it is made of."""
    spans: dict[str, list[Span]] = {}
    for piece in pieces:
        spans.setdefault(piece.grain, []).append(piece.span)
    return {
        grain: "true" if grain == "life" else f"({' OR '.join(map(within, own))})"
        for grain, own in spans.items()
    }


def _piece(grain: str, inside: str, source: str) -> str:
    window = "toDateTime(0, 'UTC') AS window" if grain == "life" else "window"
    return (
        f"SELECT '{grain}' AS grain, counter, toString(region) AS region, {window}, "
        f"toString(replica) AS replica, shard, {_VALUES} FROM {source} WHERE {_WHERE} AND {inside}"
    )


def within(span: Span) -> str:
    """The condition that a window is in the span."""
    # Rounded up: a window is in the span if it begins in it.
    since_s, until_s = -(-span.since_ms // 1000), -(-span.until_ms // 1000)
    return f"window >= toDateTime({since_s}, 'UTC') AND window < toDateTime({until_s}, 'UTC')"


def _greatest(table: str) -> str:
    return ", ".join(f"max({table}.{name}) AS {name}" for name in _VALUES.split(", "))


def _rolled(grain: str, inside: str) -> str:
    table = f"cells_{grain}"
    return (
        f"SELECT build, counter, region, window, replica, shard, {_greatest(table)} "
        f"FROM tally.{table} WHERE {_WHERE} AND {inside} "
        "GROUP BY build, counter, region, window, slot_day, replica, shard"
    )


def _rolled_life() -> str:
    days = (
        "SELECT build, counter, region, slot_day, replica, shard, "
        f"{_greatest('cells_1d')} FROM tally.cells_1d WHERE {_WHERE} "
        "GROUP BY build, counter, region, window, slot_day, replica, shard"
    )
    sums = ", ".join(f"sum(days.{name}) AS {name}" for name in _VALUES.split(", "))
    months = (
        f"SELECT build, {_MONTHS}, {_VALUES} FROM tally.cells_life WHERE {_WHERE} UNION ALL "
        "SELECT build, counter, region, toStartOfMonth(slot_day) AS slot_month, replica, shard, "
        f"{sums} FROM ({days}) AS days GROUP BY build, {_MONTHS}"
    )
    return (
        f"SELECT build, {_MONTHS}, {_greatest('months')} FROM ({months}) AS months "
        f"GROUP BY build, {_MONTHS}"
    )
