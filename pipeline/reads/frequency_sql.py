# ruff: noqa: S608 - what is put into statements are the constants of this file and whole numbers.
"""The buckets of a family's sketches as one relation.

Bound parameters are `family`, `width` and `buckets`, `region` if one is asked for, and `open_s`:
slots before it are rolled up for good. A sketch has thousands of rows a minute, so minutes are read
only of hours in which something came since; other hours are what was rolled up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.reads import live
from pipeline.reads.cell_sql import within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.spans import Piece

ALL = -1
"""The bucket that stands for the sum of a whole row of the sketch."""

WIDTHS = (
    "SELECT DISTINCT toString(family) AS name, width FROM ("
    "SELECT family, width, min(first) AS since, max(last) AS until FROM tally.frequency_widths "
    f"WHERE {live.ALL} AND (family = '' OR family IN {{families:Array(String)}}) "
    "GROUP BY family, width) "
    "WHERE toUnixTimestamp(since) < {until_s:UInt32} AND toUnixTimestamp(until) >= {since_s:UInt32}"
)
"""Which sketches there are of some families, and of those that no rule names, in a time."""

_TOUCHED = (
    "toStartOfHour(window) IN (SELECT toStartOfHour(window) FROM tally.frequency_1m "
    f"WHERE {live.ALL} AND family = {{family:String}} AND width = {{width:UInt32}} "
    "AND slot >= toDateTime({open_s:UInt32}, 'UTC'))"
)
_OPEN = "slot_day >= toDate(toDateTime({open_s:UInt32}, 'UTC'))"
_KEY = "family, width, bucket, window, region, slot_day, replica, shard"
_MONTHS = "family, width, bucket, region, slot_month, replica, shard"


def sums(pieces: Sequence[Piece], *, cached: bool, region: str | None) -> str:
    """Grain, start of the window, bucket, p and n: of the bound buckets, and of ALL."""
    mine = _relation(pieces, region, " AND bucket IN {buckets:Array(UInt32)}", cached=cached)
    # Every increment is once in each row, so any row adds up to all; the first one's come first.
    first = _relation(pieces, region, " AND bucket < {width:UInt32}", cached=cached)
    return (
        f"SELECT grain, at, toInt64(bucket) AS place, sum(p), sum(n) FROM ({mine}) "
        "GROUP BY grain, at, place UNION ALL "
        f"SELECT grain, at, toInt64({ALL}) AS place, sum(p), sum(n) FROM ({first}) "
        "GROUP BY grain, at"
    )


def whole(pieces: Sequence[Piece], region: str | None) -> str:
    """Bucket, p and n of all buckets, all windows added up."""
    source = _relation(pieces, region, "", cached=False)
    return f"SELECT bucket, sum(p), sum(n) FROM ({source}) GROUP BY bucket"


def _relation(pieces: Sequence[Piece], region: str | None, of: str, *, cached: bool) -> str:
    return " UNION ALL ".join(
        f"SELECT '{piece.grain}' AS grain, {_start(piece)} AS at, bucket, p, n "
        f"FROM {_source(piece, cached=cached)} WHERE {_where(piece, region)}{of}"
        for piece in pieces
    )


def _start(piece: Piece) -> str:
    return "toUInt32(0)" if piece.grain == "life" else "toUnixTimestamp(window)"


def _where(piece: Piece, region: str | None) -> str:
    where = f"{live.ALL} AND family = {{family:String}} AND width = {{width:UInt32}}"
    if region is not None:
        where += " AND region = {region:String}"
    if piece.grain != "life":
        where += f" AND {within(piece.span)}"
    return where


def _source(piece: Piece, *, cached: bool) -> str:
    """Exact at every moment, or cached: as it was rolled up last, which pieces of 1m never are."""
    if piece.grain == "1m":
        return "tally.merged_frequency_1m"
    return f"({_life(cached=cached) if piece.grain == 'life' else _days(piece.grain, cached)})"


def _days(grain: str, cached: bool) -> str:
    """Windows by slot day. Days of log time that are open are added up from their hours."""
    table = f"frequency_{grain}"
    rolled = (
        f"SELECT build, {_KEY}, max({table}.p) AS p, max({table}.n) AS n FROM tally.{table} "
        f"WHERE {{only}} GROUP BY build, {_KEY}"
    )
    if cached:
        return rolled.replace("{only}", "1")
    if grain == "1h":
        return (
            f"{rolled.replace('{only}', f'NOT ({_OPEN} AND {_TOUCHED})')} UNION ALL "
            f"SELECT build, {_KEY}, p, n FROM tally.merged_{table} WHERE {_OPEN} AND {_TOUCHED}"
        )
    start = _KEY.replace("window", "toStartOfDay(window) AS day")
    return (
        f"{rolled.replace('{only}', f'NOT {_OPEN}')} UNION ALL "
        f"SELECT build, {start}, sum(p) AS p, sum(n) AS n FROM ({_days('1h', cached)}) "
        f"WHERE {_OPEN} GROUP BY build, {_KEY.replace('window', 'day')}"
    )


def _life(*, cached: bool) -> str:
    months = (
        f"SELECT build, {_MONTHS}, p, n FROM tally.frequency_life UNION ALL "
        f"SELECT build, {_MONTHS.replace('slot_month', 'toStartOfMonth(slot_day) AS slot_month')}, "
        f"sum(p) AS p, sum(n) AS n FROM ({_days('1d', cached)}) GROUP BY build, {_MONTHS}"
    )
    return (
        f"SELECT build, {_MONTHS}, max(months.p) AS p, max(months.n) AS n "
        f"FROM ({months}) AS months GROUP BY build, {_MONTHS}"
    )
