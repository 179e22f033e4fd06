# ruff: noqa: S608 - what is put into statements are the constants of this file and whole numbers.
"""The names of who may lead among counters without cells: whom to estimate.

They are known by log time, so a time asked for is widened by how early and how late an increment
may be. Bound parameters are `groups`, `family` and `region` if one is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.reads import live
from pipeline.reads.spans import window_of
from pipeline.rules import EARLINESS_MS
from pipeline.slots import SLOT_MS
from schemas.rules import GRAIN_MS

if TYPE_CHECKING:
    from pipeline.reads.spans import Span
    from schemas.rules import Grain

CANDIDATES_MAX = 50_000
"""So many names are estimated at most: first those on time, then by weight."""

ON_TIME_MS = 600_000
_HOURS_UP_TO_MS = 3 * GRAIN_MS["1d"]
_MINUTES_UP_TO_MS = 3 * GRAIN_MS["1h"]

NAMED = (
    "SELECT max(at) FROM ("
    "SELECT toUnixTimestamp(max(slot)) AS at FROM tally.heavy_1m "
    f"WHERE {live.ALL} AND family = '' AND arrayExists(name -> startsWith(name, {{start:String}}), "
    "counters) UNION ALL "
    "SELECT toUnixTimestamp(max(heavy_1d.window)) FROM tally.heavy_1d "
    f"WHERE {live.ALL} AND family = '' AND startsWith(counter, {{start:String}}))"
)
"""When, by log time, a family was last among what families without a rule share; 0 if never."""


def candidates(span: Span, *, lateness_ms: int, open_s: int, region: str | None) -> str:
    """Names that may lead in a span. What is not rolled up yet begins at `open_s`.

    Days have fewer names than their hours, but may be all that is left.
    """
    since_ms = max(0, span.since_ms - EARLINESS_MS - SLOT_MS)
    until_s = -(-(span.until_ms + lateness_ms + SLOT_MS) // 1000)
    where = f"{live.ALL} AND family IN {{groups:Array(String)}}"
    if region is not None:
        where += " AND region IN ({region:String}, '*')"
    long_ms = span.until_ms - span.since_ms
    minutes_s = since_ms // 1000 if long_ms <= _MINUTES_UP_TO_MS else max(since_ms // 1000, open_s)
    minutes = (
        "SELECT known.1 AS counter, toUnixTimestamp(slot) AS at, known.2::Int128 AS weight "
        "FROM tally.heavy_1m ARRAY JOIN arrayZip(counters, counts) AS known "
        f"WHERE {where} AND slot >= toDateTime({minutes_s}, 'UTC') "
        f"AND toUnixTimestamp(slot) < {until_s}"
    )
    grains: tuple[Grain, ...] = ("1h", "1d") if long_ms <= _HOURS_UP_TO_MS else ("1d",)
    coarser = [
        f"SELECT counter, toUnixTimestamp(window) AS at, weight FROM tally.heavy_{grain} "
        f"WHERE {where} AND window >= toDateTime({window_of(since_ms, grain) // 1000}, 'UTC') "
        f"AND toUnixTimestamp(window) < {until_s}"
        for grain in grains
    ]
    on_time = f"at < {-(-(span.until_ms + ON_TIME_MS) // 1000)}"
    return (
        f"SELECT counter FROM ({' UNION ALL '.join([minutes, *coarser])}) "
        "WHERE startsWith(counter, concat({family:String}, ':')) GROUP BY counter "
        f"ORDER BY max({on_time}) DESC, sum(weight) DESC, counter LIMIT {CANDIDATES_MAX}"
    )


def weights(span: Span, *, region: str | None) -> str | None:
    """What was added to each of the heaviest, for certain, in the minutes of log time of a span.

    None for a span of more than some hours. Where nothing came late, it is nearer to the truth than
    an estimate, which takes others' increments for a counter's own.
    """
    if span.until_ms - span.since_ms > _MINUTES_UP_TO_MS:
        return None
    where = f"{live.ALL} AND family IN {{groups:Array(String)}} AND region = " + (
        "'*'" if region is None else "{region:String}"
    )
    return (
        "SELECT known.1 AS counter, sum(known.2::Int128) FROM ("
        "SELECT argMax(arrayZip(counters, counts), through) AS pairs FROM tally.heavy_1m "
        f"WHERE {where} AND slot >= toDateTime({span.since_ms // 1000}, 'UTC') "
        f"AND toUnixTimestamp(slot) < {-(-span.until_ms // 1000)} "
        "GROUP BY family, region, slot, replica, shard) ARRAY JOIN pairs AS known "
        "WHERE startsWith(counter, concat({family:String}, ':')) GROUP BY counter"
    )
