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

_FOLDED = f"SELECT slot_month FROM tally.cells_life WHERE {_WHERE}"
FORGOTTEN = (
    "SELECT toUnixTimestamp(toDateTime(max(month) + INTERVAL 1 MONTH, 'UTC')) * (count() > 0) "
    "FROM (SELECT month FROM ("
    "SELECT slot_month AS month, p AS life_p, n AS life_n, 0::Int128 AS day_p, 0::Int128 AS day_n "
    f"FROM tally.merged_life WHERE {_WHERE} AND slot_month IN ({_FOLDED}) UNION ALL "
    "SELECT toStartOfMonth(slot_day), 0::Int128, 0::Int128, p, n "
    f"FROM tally.merged_1d WHERE {_WHERE} AND toStartOfMonth(slot_day) IN ({_FOLDED})"
    ") GROUP BY month HAVING sum(life_p) > sum(day_p) OR sum(life_n) > sum(day_n))"
)
"""When the last month ends whose lifetime total has more than its days; 0 if there is none."""


def cells(pieces: Sequence[Piece]) -> str:
    """Exact at every moment: the greater of what was rolled up and what finer windows add up to."""
    return " UNION ALL ".join(_piece(piece, f"tally.merged_{piece.grain}") for piece in pieces)


def rolled_up_cells(pieces: Sequence[Piece]) -> str:
    """As they were rolled up last, which no minute has to be read for. Pieces of 1m have none."""
    return " UNION ALL ".join(
        _piece(piece, f"({_rolled_life() if piece.grain == 'life' else _rolled(piece)})")
        for piece in pieces
    )


def _piece(piece: Piece, source: str) -> str:
    life = piece.grain == "life"
    window = "toDateTime(0, 'UTC') AS window" if life else "window"
    inside = "" if life else f" AND {within(piece.span)}"
    return (
        f"SELECT '{piece.grain}' AS grain, counter, toString(region) AS region, {window}, "
        f"toString(replica) AS replica, shard, {_VALUES} FROM {source} WHERE {_WHERE}{inside}"
    )


def within(span: Span) -> str:
    """The condition that a window is in the span."""
    # Rounded up: a window is in the span if it begins in it.
    since_s, until_s = -(-span.since_ms // 1000), -(-span.until_ms // 1000)
    return f"window >= toDateTime({since_s}, 'UTC') AND window < toDateTime({until_s}, 'UTC')"


def _greatest(table: str) -> str:
    return ", ".join(f"max({table}.{name}) AS {name}" for name in _VALUES.split(", "))


def _rolled(piece: Piece) -> str:
    table = f"cells_{piece.grain}"
    return (
        f"SELECT build, counter, region, window, replica, shard, {_greatest(table)} "
        f"FROM tally.{table} WHERE {_WHERE} AND {within(piece.span)} "
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
