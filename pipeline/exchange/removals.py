"""What another cluster let go of, by retention, and which goes here too.

The coarser windows that hold it were copied first: it was rolled up before it went there, and what
went is looked for before what is to be copied. A query here may have read those before they came,
and be about to read the finer ones; so nothing goes before the longest allowed query is over.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from pipeline.clickhouse import NOW_MS
from pipeline.exchange.plan import Place
from pipeline.exchange.tables import BY_NAME
from pipeline.rollup import sql as rollup_sql
from pipeline.rollup.retention import FamilySet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.exchange.side import Side

_EXPIRED = (
    "SELECT grain, toString(slot_day), families, toUnixTimestamp64Milli(max(deleted_at)) "
    "FROM tally.expired_days WHERE build = {build:UInt32} GROUP BY grain, slot_day, families"
)
_UNFINISHED = (
    "SELECT count() FROM system.mutations WHERE database = 'tally' AND NOT is_done "
    "AND has({tables:Array(String)}, table)"
)
_NOTICED = (
    "SELECT table_name, day, families, version, "
    "toUnixTimestamp64Milli(min(foreign_removals.noticed_at)), max(foreign_removals.done) "
    "FROM tally.foreign_removals WHERE build = {build:UInt32} "
    "GROUP BY table_name, day, families, version"
)
_NOTE = (
    "INSERT INTO tally.foreign_removals SELECT {build:UInt32}, {name:String}, {day:String}, "
    "{families:String}, {version:UInt64}, now64(3), {done:UInt8}"
)


class Removal(NamedTuple):
    """A partition of a table that goes or, by grain, the rows of some families in it."""

    name: str
    day: str
    families: str
    version: int


@dataclass(frozen=True, slots=True)
class Noticed:
    """When a removal was known first, and whether it has been done."""

    at_ms: int
    done: bool


def due(
    removals: Iterable[Removal], noticed: Mapping[Removal, Noticed], now_ms: int, wait_ms: int
) -> list[Removal]:
    """The removals that may be done now. Pure. Those that were not noticed are noticed now."""
    unknown = Noticed(now_ms, done=False)
    known = [(removal, noticed.get(removal, unknown)) for removal in removals]
    return [one for one, seen in known if not seen.done and now_ms >= seen.at_ms + wait_ms]


def of_partitions(gone: Iterable[Place], copied: Mapping[Place, int]) -> list[Removal]:
    """Whole partitions. One that comes again, and goes again, has another number by then."""
    return [Removal(*place, "", max(0, copied.get(place, 0))) for place in gone]


def families_of(text: str) -> FamilySet:
    """The families that `FamilySet.text` wrote."""
    all_but = text.startswith("all but ")
    names = ast.literal_eval(text.removeprefix("all but ").removeprefix("only "))
    return FamilySet(tuple(cast("list[str]", names)), all_but=all_but)


def expired(source: Side, build: int) -> list[Removal]:
    """Rows of families that the source has deleted; none while it is still at it. Blocks."""
    [(unfinished,)] = source.rows(_UNFINISHED, {"tables": list(BY_NAME)})
    if unfinished:
        return []
    rows = source.rows(_EXPIRED, {"build": build})
    return [Removal(grain, day, families, int(at_ms)) for grain, day, families, at_ms in rows]


class Removals:
    """The removals from one foreign build. Blocks, and raises as `here` does."""

    def __init__(self, here: Side, build: int, wait_s: float) -> None:
        self._here = here
        self._build = build
        self._wait_ms = round(wait_s * 1000)

    def remove(self, removals: Sequence[Removal], present: Iterable[Place]) -> list[Removal]:
        """Do what is due of them, where there is anything to remove; what was done."""
        there = [one for one in removals if _places(one) & {*present}]
        if not there:
            return []
        [(now_ms,)] = self._here.rows(NOW_MS, {})
        rows = self._here.rows(_NOTICED, {"build": self._build})
        noticed = {
            Removal(name, day, families, int(version)): Noticed(int(at_ms), bool(done))
            for name, day, families, version, at_ms, done in rows
        }
        for removal in there:
            if removal not in noticed:
                self._note(removal, done=False)
        ready = due(there, noticed, int(now_ms), self._wait_ms)
        for removal in ready:
            self._do(removal)
            if removal.families:
                self._note(removal, done=True)
        return ready

    def _do(self, removal: Removal) -> None:
        if not removal.families:
            partition = f"({self._build}, '{removal.day}')"
            self._here.run(f"ALTER TABLE tally.{removal.name} DROP PARTITION {partition}", {})
            return
        families = families_of(removal.families)
        statements = rollup_sql.delete(
            removal.name, self._build, removal.day, all_but=families.all_but
        )
        for table, statement in zip(rollup_sql.TABLES[removal.name], statements, strict=True):
            if table in BY_NAME:
                self._here.run(statement, {"families": list(families.names)})

    def _note(self, removal: Removal, *, done: bool) -> None:
        asked = {"build": self._build, **removal._asdict(), "done": int(done)}
        self._here.run(_NOTE, asked)


def _places(removal: Removal) -> set[Place]:
    tables = rollup_sql.TABLES[removal.name] if removal.families else [removal.name]
    return {Place(table, removal.day) for table in tables}
