# ruff: noqa: S608 - what is put into statements are names and numbers of ours; see compare_sql.
"""The rows of both builds that a question is about, one for each build and key. Pure.

Each function returns a SELECT of `build`, the columns of a key and those of its values, as readers
have them: the greatest, or the one that holds, whether or not parts are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.builds.comparing import sql

if TYPE_CHECKING:
    from pipeline.builds.comparing.sql import Asked, Columns
    from pipeline.rollup.retention import Grain


def minutes(asked: Asked, table: str, columns: Columns) -> str:
    """Rows of slots that are over."""
    greatest = ", ".join(f"max({table}.{value}) AS {value}" for value in columns.values)
    return (
        f"SELECT build, {columns.keys}, {greatest} FROM tally.{table} "
        f"WHERE {_slots(asked)} AND {sql.share(asked, columns.share)} "
        f"GROUP BY build, {columns.keys}"
    )


def heaviest(asked: Asked, columns: Columns) -> str:
    """Names that may lead, of slots that are over: the row that counted furthest. All rows that
    say they did are told, should there be several."""
    rows = "groupUniqArray((heavy_1m.through, counters, counts, lost))"
    known = (
        f"SELECT build, {columns.keys}, max(heavy_1m.through) AS through, "
        f"arraySort(arrayFilter(one -> one.1 = through, {rows})) AS known FROM tally.heavy_1m "
        f"WHERE {_slots(asked)} AND {sql.share(asked, columns.share)} "
        f"GROUP BY build, {columns.keys}"
    )
    return (
        f"SELECT build, {columns.keys}, through, known[1].4 AS lost, "
        f"length(known[1].2) AS names, cityHash64(known) AS digest FROM ({known})"
    )


def registers(asked: Asked, table: str, columns: Columns, grain: Grain) -> str:
    """Registers of slot days that are over in all shards: how many, their sum, and a digest."""
    unit = "toStartOfMonth(slot_day)" if grain == "1d" else "slot_day"
    united = (
        f"SELECT build, {columns.keys}, maxMap({table}.registers) AS united FROM tally.{table} "
        f"WHERE {asked.builds} AND {sql.within(asked, unit)} "
        f"AND {sql.over_day_everywhere(asked.reach)} AND {_within(asked, grain)} "
        f"AND {sql.share(asked, columns.share)} GROUP BY build, {columns.keys}"
    )
    return (
        f"SELECT build, {columns.keys}, length(united) AS registers, "
        "arraySum(mapValues(united)) AS ranks, "
        f"cityHash64(mapKeys(united), mapValues(united)) AS digest FROM ({united})"
    )


def merged(asked: Asked, view: str, columns: Columns, grain: Grain) -> str:
    """What answers come from, of slot days that are over: rolled up or not."""
    return (
        f"SELECT build, {columns.keys}, {', '.join(columns.values)} FROM tally.{view} "
        f"WHERE {asked.builds} AND {sql.within(asked, 'slot_day')} AND {sql.over_day(asked.reach)} "
        f"AND {_within(asked, grain)} AND {sql.share(asked, columns.share)}"
    )


def merged_life(asked: Asked, view: str, columns: Columns) -> str:
    """The same of a month, for totals."""
    return (
        f"SELECT build, {columns.keys}, {', '.join(columns.values)} FROM tally.{view} "
        f"WHERE {asked.builds} AND {sql.within(asked, 'slot_month')} "
        f"AND {sql.over_month(asked.reach)} AND {sql.scoped(asked, has_window=False)} "
        f"AND {sql.share(asked, columns.share)}"
    )


def left_days(asked: Asked, kind: str, columns: Columns) -> str:
    """Rows of days that are over and of which nothing finer is left, month by month."""
    table = f"{kind}_1d"
    finer = ", ".join(f"'{day}'" for day in sorted(asked.finer_days.get(kind, ())))
    greatest = ", ".join(f"max({table}.{value}) AS {value}" for value in columns.values)
    return (
        f"SELECT build, {columns.keys}, {greatest}, 0::Int128 AS above, 0::Int128 AS below "
        f"FROM tally.{table} "
        f"WHERE {asked.builds} AND {sql.within(asked, 'toStartOfMonth(slot_day)')} "
        f"AND NOT has(CAST([{finer}], 'Array(Date)'), slot_day) AND {sql.over_day(asked.reach)} "
        f"AND {_within(asked, '1d')} AND {sql.share(asked, columns.share)} "
        f"GROUP BY build, {columns.keys}"
    )


def letters(asked: Asked, columns: Columns) -> str:
    """Dead letters of records, with every reason that is there. Those of rows that ClickHouse
    refused tell of a flush, not of the log."""
    return (
        f"SELECT build, {columns.keys}, {_all('reason')}, {_all('bytes')} "
        f"FROM tally.dead_letters WHERE {asked.builds} AND {sql.within(asked, 'toDate(log_time)')} "
        f"AND `row` >= 0 AND {sql.reached_offset(asked.reach.letters_through)} "
        f"AND {sql.share(asked, columns.share)} "
        f"GROUP BY build, {columns.keys}"
    )


def adjustments(asked: Asked, columns: Columns) -> str:
    """Corrections at their places in the log, with everything that is said of them."""
    rows = (
        f"SELECT * FROM tally.adjustments WHERE {asked.builds} AND {sql.scoped(asked)} "
        f"AND {sql.reached_offset(asked.reach.flushed_through)} "
        f"AND {sql.share(asked, columns.share)}"
    )
    return (
        f"SELECT build, {columns.keys}, {', '.join(map(_all, columns.values))} FROM ({rows}) "
        f"GROUP BY build, {columns.keys}"
    )


def _slots(asked: Asked) -> str:
    return (
        f"{asked.builds} AND {sql.within(asked, 'toDate(slot)')} AND {sql.over_slot(asked.reach)} "
        f"AND {_within(asked, '1m')}"
    )


def _within(asked: Asked, grain: Grain) -> str:
    """Rows in the scope, of families that keep them."""
    return f"{sql.scoped(asked)} AND {sql.kept(asked, grain)}"


def _all(column: str) -> str:
    """All values of a column in rows that replace each other: one, unless somebody changed it."""
    values = f"groupUniqArray(ifNull(toString(`{column}`), ''))"
    return f"arrayStringConcat(arraySort({values}), ' | ') AS `{column}`"
