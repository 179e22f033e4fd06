# ruff: noqa: S608 - what is put into statements are names and numbers of ours; see compare_sql.
"""Three looks at rows of two builds: by digests, by number, by example. Pure.

The first adds up a hash of every key with its values, strip by strip, and tells which strips are
not alike. Only those are looked at row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.builds.comparing.sql import Asked
    from pipeline.builds.comparing.tables import Table


def by_digest(table: Table, asked: Asked) -> str:
    """Answered by one row: how many keys are in strips that are alike, and the other strips."""
    hashed = ", ".join((*table.columns.key, *map(_quoted, table.columns.values)))
    rows = (
        f"SELECT build, {table.strip} AS strip, cityHash64({hashed}) AS hashed "
        f"FROM ({table.rows(asked)})"
    )
    old, new = f"build = {asked.old}", f"build = {asked.new}"
    strips = (
        f"SELECT strip, countIf({old}) AS keys, keys = countIf({new}) "
        f"AND sumIf(hashed, {old}) = sumIf(hashed, {new}) AS alike FROM ({rows}) GROUP BY strip"
    )
    return (
        "SELECT sumIf(keys, alike), arraySort(groupArrayIf(toUInt32(strip), NOT alike)) "
        f"FROM ({strips})"
    )


def by_number(table: Table, asked: Asked, strips: Sequence[int]) -> str:
    """Answered by one row: how many keys there are in the strips, and how many differ."""
    return f"SELECT count(), countIf(NOT alike) FROM ({_by_key(table, asked, strips)})"


def by_example(table: Table, asked: Asked, strips: Sequence[int], limit: int) -> str:
    """Answered by rows that differ: key, whether each build has it, old values, new values."""
    names = [
        *table.columns.key,
        *("in_old", "in_new"),
        *(f"old_{number}" for number in range(len(table.columns.values))),
        *(f"new_{number}" for number in range(len(table.columns.values))),
    ]
    return (
        f"SELECT {', '.join(names)} FROM ({_by_key(table, asked, strips)}) WHERE NOT alike "
        f"ORDER BY {table.columns.keys} LIMIT {limit}"
    )


def _by_key(table: Table, asked: Asked, strips: Sequence[int]) -> str:
    sides = (("old", asked.old), ("new", asked.new))
    values = [
        f"anyIf({_quoted(name)}, build = {build}) AS {side}_{number}"
        for side, build in sides
        for number, name in enumerate(table.columns.values)
    ]
    numbers = range(len(table.columns.values))
    same = " AND ".join(["in_old = in_new", *(f"old_{one} = new_{one}" for one in numbers)])
    return (
        f"SELECT {table.columns.keys}, countIf(build = {asked.old}) > 0 AS in_old, "
        f"countIf(build = {asked.new}) > 0 AS in_new, {', '.join(values)}, {same} AS alike "
        f"FROM ({table.rows(asked)}) WHERE has({list(strips)}, toUInt32({table.strip})) "
        f"GROUP BY {table.columns.keys}"
    )


def _quoted(name: str) -> str:
    return f"`{name}`"
