# ruff: noqa: S608 - what is put into statements are names and numbers of ours; see compare_sql.
"""Rolled-up rows of both builds, by themselves. Pure.

Answers are the greater of what is rolled up and what finer windows add up to. So a row that was
deleted shows only when the minutes are gone, and one that was raised at once. Where a shard is
rolled up past the day in both builds, rows are equal. Elsewhere they cannot be, but must lie within
bounds of their own build: at most what all finer windows add up to, at least what minutes of slots
that are rolled up do. `above` and `below` are by how much they do not; rows that do are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.builds.comparing import sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.builds.comparing.sql import Asked, Columns
    from pipeline.rollup.retention import Grain

_FINER = {"1h": ("toStartOfHour", "1m"), "1d": ("toStartOfDay", "1h")}
_VIEWS = {"cells": "merged", "frequency": "merged_frequency"}
_LEGS = range(3)


def rolled(asked: Asked, kind: str, grain: Grain, columns: Columns) -> str:
    """Hours or days of a slot day, of cells or of sketches."""
    day = f"{sql.within(asked, 'slot_day')} AND {sql.scoped(asked)} AND {sql.kept(asked, grain)}"
    where = f"{_shards(asked, columns)} AND {day}"
    legs = [_leg(f"{kind}_{grain}", where, columns)]
    if not asked.is_rolled:
        start, finer = _FINER[grain]
        made, kept = {"window": f"{start}(window)"}, f"{where} AND {sql.kept(asked, '1m')}"
        counted = f"{kept} AND {sql.rolled_slot(asked)}"
        view = _VIEWS[kind]
        legs.append(_sums(1, f"{view}_{finer}", kept, columns, made))
        legs.append(_sums(2, f"{view}_1m", counted, columns, made))
    return _bounded(legs, columns, sql.rolled(asked), sql.kept(asked, "1m"))


def life(asked: Asked, kind: str, columns: Columns) -> str:
    """Lifetime totals of a month. They are equal if both builds have it in them for good. If one
    has, they are at least what is left of the days there, and in any case at most what all are."""
    where = (
        f"{_shards(asked, columns)} AND {sql.within(asked, 'slot_month')} "
        f"AND {sql.scoped(asked, has_window=False)}"
    )
    legs = [_leg(f"{kind}_life", where, columns)]
    is_folded = asked.folded >= {asked.old, asked.new}
    if not is_folded:
        days, made = f"{_VIEWS[kind]}_1d", {"slot_month": "toStartOfMonth(slot_day)"}
        folded = f"has(CAST({sorted(asked.folded)}, 'Array(UInt32)'), build)"
        legs.append(_sums(1, days, f"{where} AND {sql.kept(asked, '1d')}", columns, made))
        legs.append(_sums(2, days, f"{where} AND {folded}", columns, made))
    return _bounded(legs, columns, str(int(is_folded)), sql.kept(asked, "1d"))


def _shards(asked: Asked, columns: Columns) -> str:
    return f"{asked.builds} AND {sql.comparable(asked.reach)} AND {sql.share(asked, columns.share)}"


def _leg(table: str, where: str, columns: Columns) -> str:
    """Rolled-up rows as they are."""
    values = _values(0, {name: name for name in columns.values})
    return (
        f"SELECT {', '.join(_key(columns))}, {values}, 1 AS found FROM tally.{table} WHERE {where}"
    )


def _sums(leg: int, view: str, where: str, columns: Columns, made: Mapping[str, str]) -> str:
    """What finer rows add up to; `made` has how their coarser key is made."""
    key = _key(columns)
    named = ", ".join(f"{made[name]} AS {name}" if name in made else name for name in key)
    values = _values(leg, {name: f"sum({view}.{name})" for name in columns.values})
    return (
        f"SELECT {named}, {values}, 0 AS found FROM tally.{view} "
        f"WHERE {where} GROUP BY {', '.join(key)}"
    )


def _bounded(legs: Sequence[str], columns: Columns, is_equal: str, is_kept: str) -> str:
    """The first leg has the rows, the second what they may be at most, the third at least."""
    key, values = ", ".join(_key(columns)), columns.values
    greatest = ", ".join(f"max({name}_{leg}) AS {name}_{leg}" for leg in _LEGS for name in values)
    found = (
        f"SELECT {key}, {is_equal} AS is_equal, {is_kept} AS is_kept, max(found) AS is_found, "
        f"{greatest} FROM ({' UNION ALL '.join(legs)}) GROUP BY {key}"
    )
    shown = ", ".join(f"if(is_equal, {name}_0, 0) AS {name}" for name in values)
    above = " + ".join(f"greatest({name}_0 - {name}_1, 0)" for name in values)
    below = " + ".join(f"greatest({name}_2 - {name}_0, 0)" for name in values)
    return (
        f"SELECT build, {columns.keys}, {shown}, "
        f"if(is_equal OR NOT is_kept, 0, {above}) AS above, "
        f"if(is_equal, 0, {below}) AS below "
        f"FROM ({found}) WHERE (is_equal AND is_found) OR above > 0 OR below > 0"
    )


def _values(leg: int, found: Mapping[str, str]) -> str:
    """The values of one leg beside those of the others, which are zero."""
    return ", ".join(
        f"CAST({value if one == leg else 0}, 'Int128') AS {name}_{one}"
        for one in _LEGS
        for name, value in found.items()
    )


def _key(columns: Columns) -> list[str]:
    """A key with the build and the family, which some keys have anyway."""
    return list(dict.fromkeys(["build", "family", *columns.key]))
