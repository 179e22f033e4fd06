# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""The statements that roll sketches up: counts by bucket, and the names of who may lead.

A sketch's buckets are written together, so an hour of a family, region and shard that has an open
slot in it is written anew as a whole.
"""

from __future__ import annotations

from pipeline.rollup.sql import OPEN

HEAVY_NAMES_MAX = 4096
"""Names that are kept of one family, region and hour, or day: those with the greatest weights."""

COUNT_OPEN = {
    "frequency": (
        "SELECT toDate(slot) AS day, toString(family) AS name, count() FROM tally.frequency_1m "
        f"WHERE {OPEN} GROUP BY day, name"
    ),
    "heavy": (
        "SELECT toDate(slot) AS day, toString(family) AS name, sum(length(counters)) "
        f"FROM tally.heavy_1m WHERE {OPEN} GROUP BY day, name"
    ),
}

_FAMILIES = "family >= {first:String} AND family <= {last:String}"
_SHARE = f"{_FAMILIES} AND cityHash64(bucket) % {{parts:UInt32}} = {{part:UInt32}}"
_KEY = "build, family, width, bucket, window, region, slot_day, replica, shard"


def _open(table: str, columns: str) -> str:
    return (
        f"({columns}) IN (SELECT {columns} FROM tally.{table} WHERE {OPEN} "
        f"AND toDate(slot) = {{day:Date}} AND {_FAMILIES})"
    )


def _touched(start: str) -> str:
    return _open("frequency_1m", f"family, width, region, {start}(window), replica, shard")


def _roll(table: str, start: str, source: str) -> str:
    key = _KEY.replace("window", f"{start}(window) AS start")
    return (
        f"INSERT INTO tally.{table} ({_KEY}, p, n) SELECT {key}, sum(p), sum(n) FROM ({source}) "
        f"GROUP BY {_KEY.replace('window', 'start')}"
    )


_FREQUENCY = {
    "1h": _roll(
        "frequency_1h",
        "toStartOfHour",
        f"SELECT {_KEY.replace('slot_day', 'slot, toDate(slot) AS slot_day')}, "
        "max(frequency_1m.p)::Int128 AS p, max(frequency_1m.n)::Int128 AS n "
        "FROM tally.frequency_1m WHERE build = {build:UInt32} AND toDate(slot) = {day:Date} "
        f"AND {_SHARE} AND {_touched('toStartOfHour')} GROUP BY {_KEY}, slot",
    ),
    "1d": _roll(
        "frequency_1d",
        "toStartOfDay",
        f"SELECT {_KEY}, max(frequency_1h.p) AS p, max(frequency_1h.n) AS n "
        "FROM tally.frequency_1h WHERE build = {build:UInt32} AND slot_day = {day:Date} "
        f"AND {_SHARE} AND {_touched('toStartOfDay')} GROUP BY {_KEY}",
    ),
}


def _roll_names(table: str, start: str, source: str) -> str:
    return (
        f"INSERT INTO tally.{table} (build, family, region, window, counter, weight) "
        f"SELECT build, family, region, {start} AS start, counter, sum(weight) AS weight "
        f"FROM ({source}) WHERE cityHash64(counter) % {{parts:UInt32}} = {{part:UInt32}} "
        "GROUP BY build, family, region, start, counter "
        f"ORDER BY weight DESC, counter LIMIT {HEAVY_NAMES_MAX} BY family, region, start"
    )


_HEAVY = {
    "1h": _roll_names(
        "heavy_1h",
        "toStartOfHour(slot)",
        "SELECT build, family, region, slot, counter, weight::Int128 AS weight FROM ("
        "SELECT build, family, region, slot, argMax((counters, counts), through) AS known "
        "FROM tally.heavy_1m WHERE build = {build:UInt32} AND toDate(slot) = {day:Date} "
        f"AND {_FAMILIES} AND {_open('heavy_1m', 'family, region, toStartOfHour(slot)')} "
        "GROUP BY build, family, region, slot, replica, shard"
        ") ARRAY JOIN known.1 AS counter, known.2 AS weight",
    ),
    "1d": _roll_names(
        "heavy_1d",
        "toStartOfDay(window)",
        "SELECT build, family, region, window, counter, max(heavy_1h.weight) AS weight "
        "FROM tally.heavy_1h WHERE build = {build:UInt32} AND toDate(window) = {day:Date} "
        f"AND {_FAMILIES} AND {_open('heavy_1m', 'family, region')} "
        "GROUP BY build, family, region, window, counter",
    ),
}

ROLL = {"frequency": _FREQUENCY, "heavy": _HEAVY}

FOLD = (
    "INSERT INTO tally.frequency_life "
    "(build, family, width, bucket, region, slot_month, replica, shard, p, n) "
    "SELECT build, family, width, bucket, region, {month:Date}, replica, shard, sum(p), sum(n) "
    f"FROM (SELECT {_KEY}, max(frequency_1d.p) AS p, max(frequency_1d.n) AS n "
    "FROM tally.frequency_1d WHERE build = {build:UInt32} "
    "AND toStartOfMonth(slot_day) = {month:Date} "
    f"AND cityHash64(bucket) % {{parts:UInt32}} = {{part:UInt32}} GROUP BY {_KEY}) "
    "GROUP BY build, family, width, bucket, region, replica, shard"
)
