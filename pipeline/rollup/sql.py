# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""The statements of the rollup. Values are bound parameters; only names of ours are put in.

A sum that has an open cell in it is found by a hash of its key. Two keys with one hash only mean
that a sum is written once more than needed.
"""

from __future__ import annotations

# A shard that is not named is open from its first slot on; `least_s` keeps parts from being read.
OPEN = (
    "build = {build:UInt32} AND slot >= toDateTime({least_s:UInt32}, 'UTC') AND "
    "slot >= toDateTime(transform(shard, {shards:Array(UInt32)}, {slots_s:Array(UInt32)}, "
    "toUInt32(0)), 'UTC')"
)

PROGRESS = (
    "SELECT shard, toUnixTimestamp64Milli(max(log_time)) FROM tally.{table} "
    "WHERE build = {{build:UInt32}} AND (replica = {{replica:String}} "
    "OR startsWith(replica, concat({{replica:String}}, '~'))) GROUP BY shard"
)

COUNT_OPEN = (
    "SELECT toDate(slot) AS day, toString(family) AS name, count() FROM tally.cells_1m "
    f"WHERE {OPEN} GROUP BY day, name"
)

_SHARE = (
    "family >= {first:String} AND family <= {last:String} "
    "AND cityHash64(counter) % {parts:UInt32} = {part:UInt32}"
)
_KEY = "build, counter, region, window, slot_day, replica, shard"


def _touched(start: str, day: str) -> str:
    return (
        f"cityHash64(counter, region, {start}(window), replica, shard) IN ("
        f"SELECT cityHash64(counter, region, {start}(window), replica, shard) FROM tally.cells_1m "
        f"WHERE {OPEN} AND toDate(slot) = {day} AND {_SHARE})"
    )


def _roll(table: str, start: str, source: str) -> str:
    """The minutes of merged_1m, or the hours of cells_1h, added up to a coarser grain."""
    key = _KEY.replace("window", f"{start}(window) AS start")
    return (
        f"INSERT INTO tally.{table} ({_KEY}, p, n, duplicates) "
        f"SELECT {key}, sum(p), sum(n), sum(duplicates) FROM ({source}) "
        "GROUP BY build, counter, region, start, slot_day, replica, shard"
    )


_WHERE = f"build = {{build:UInt32}} AND slot_day = {{day:Date}} AND {_SHARE}"
ROLL = {
    "1h": _roll(
        "cells_1h",
        "toStartOfHour",
        f"SELECT {_KEY}, p, n, duplicates FROM tally.merged_1m "
        f"WHERE {_WHERE} AND {_touched('toStartOfHour', '{day:Date}')}",
    ),
    "1d": _roll(
        "cells_1d",
        "toStartOfDay",
        f"SELECT {_KEY}, max(cells_1h.p) AS p, max(cells_1h.n) AS n, "
        "max(cells_1h.duplicates) AS duplicates FROM tally.cells_1h "
        f"WHERE {_WHERE} AND {_touched('toStartOfDay', '{day:Date}')} GROUP BY {_KEY}",
    ),
}

FOLD = (
    "INSERT INTO tally.cells_life "
    "(build, counter, region, slot_month, replica, shard, p, n, duplicates) "
    "SELECT build, counter, region, {month:Date}, replica, shard, sum(p), sum(n), sum(duplicates) "
    f"FROM (SELECT {_KEY}, max(cells_1d.p) AS p, max(cells_1d.n) AS n, "
    "max(cells_1d.duplicates) AS duplicates FROM tally.cells_1d WHERE build = {build:UInt32} "
    "AND toStartOfMonth(slot_day) = {month:Date} "
    f"AND cityHash64(counter) % {{parts:UInt32}} = {{part:UInt32}} GROUP BY {_KEY}) "
    "GROUP BY build, counter, region, replica, shard"
)

CONFIRM_SHARDS = (
    "INSERT INTO tally.rolled_shards (build, replica, shard, log_time) "
    "SELECT {build:UInt32}, {replica:String}, row.1, fromUnixTimestamp64Milli(row.2, 'UTC') "
    "FROM (SELECT arrayJoin(arrayZip({shards:Array(UInt32)}, {log_ms:Array(Int64)})) AS row)"
)

# Families that are known and had nothing open are as up to date as those that had.
CONFIRM_FAMILIES = (
    "INSERT INTO tally.rollups (build, family, grain, rolled_up_at) "
    "SELECT {build:UInt32}, name, arrayJoin(['1h', '1d']), now64(3) FROM ("
    "SELECT toString(family) AS name FROM tally.rollups WHERE build = {build:UInt32} "
    "AND NOT has({failed:Array(String)}, name) "
    "UNION DISTINCT SELECT arrayJoin({families:Array(String)}) AS name)"
)

CONFIRM_FINAL = (
    "INSERT INTO tally.final_days (build, grain, slot_day, partitions, confirmed_at) "
    "SELECT {build:UInt32}, {grain:String}, arrayJoin({days:Array(Date)}), "
    "{partitions:UInt32}, now64(3)"
)

CONFIRM_DELETED = (
    "INSERT INTO tally.expired_days (build, grain, slot_day, families, partitions, deleted_at) "
    "SELECT {build:UInt32}, {grain:String}, {day:Date}, {families:String}, "
    "{partitions:UInt32}, now64(3)"
)


_KEPT = ("distinct", "frequency", "heavy", "cells")
TABLES = {grain: [f"{kind}_{grain}" for kind in _KEPT] for grain in ("1m", "1h", "1d")}
TABLES["1m"].insert(0, "trend_members")
TABLES["1h"].insert(0, "trend_scores")
"""What goes together, with the cells of a grain and day."""

LEDGER = {"1m": ["slots"]}
"""What goes with a whole day of a grain alone: it knows no families."""

_PRESENT = ", ".join(
    f"('{table}', '{grain}')"
    for kept in (TABLES, LEDGER)
    for grain, tables in kept.items()
    for table in tables
)

# Rows are those of what is added up for lifetimes. A day may be left in another table alone.
PRESENT = (
    f"SELECT arrayFirst(one -> one.1 = table, [{_PRESENT}]).2 AS grain, partition, "
    "greatest(sumIf(rows, startsWith(table, 'cells')), "
    "sumIf(rows, startsWith(table, 'frequency'))) FROM system.parts "
    "WHERE database = 'tally' AND active AND grain != '' GROUP BY grain, partition"
)

FINAL = (
    "SELECT grain, slot_day, toUnixTimestamp64Milli(min(confirmed_at)) FROM tally.final_days "
    "WHERE build = {build:UInt32} AND partitions = {partitions:UInt32} GROUP BY grain, slot_day"
)

DELETED = (
    "SELECT DISTINCT grain, slot_day, families FROM tally.expired_days "
    "WHERE build = {build:UInt32} AND partitions = {partitions:UInt32}"
)


def drop(grain: str, build: int, day: str) -> tuple[str, ...]:
    """Drop a partition of every table of a grain; nothing happens where there is none."""
    return tuple(
        f"ALTER TABLE tally.{table} DROP PARTITION ({build}, '{day}')"
        for table in (*LEDGER.get(grain, ()), *TABLES[grain])
    )


def delete(grain: str, build: int, day: str, *, all_but: bool) -> tuple[str, ...]:
    """Delete rows of `{families:Array(String)}`, or of all others, from a grain's partition."""
    has = "NOT has" if all_but else "has"
    return tuple(
        f"ALTER TABLE tally.{table} DELETE IN PARTITION ({build}, '{day}') "
        f"WHERE {has}({{families:Array(String)}}, toString(family))"
        for table in TABLES[grain]
    )
