"""What retention may have taken from a build, so that it is no difference. Pure.

Deletions are asked for and done later, row by row, and retention may have been another one before.
So a grain of a family and day counts as gone as soon as it may be, by any retention that was ever
applied, and by the leader's own rule; coarser grains cover it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from pipeline.rollup.retention import Days, Delete, Drop, FamilySet, Finished, Grain, removals

if TYPE_CHECKING:
    from schemas.families import Families

NONE = FamilySet(())
ALL = FamilySet((), all_but=True)

SLACK_MS = 3_600_000
"""Log time goes on while builds are compared, and a new partition's may be behind the others'."""

NEVER_MS = 2**62


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a build's retention. `least_ms` is the log time that all its shards passed,
    `final` its days and months that are rolled up for good, `deleted` what it was told to delete.
    """

    least_ms: int
    final: frozenset[tuple[Finished, date]] = frozenset()
    deleted: frozenset[tuple[Grain, date, str]] = frozenset()


Gone = Mapping[tuple[Grain, date], FamilySet]
"""By grain and day, for days the month, the families of which it may be gone."""


def gone(builds: Iterable[Kept], retentions: Iterable[Families]) -> Gone:
    """What may be gone from one of the builds at least."""
    found: dict[tuple[Grain, date], FamilySet] = {}
    documents = list(retentions)
    for build in builds:
        for grain, day, families in build.deleted:
            _add(found, grain, day, parse_set(families))
        for families_kept in documents:
            for removal in _removable(build, families_kept):
                families_gone = ALL if isinstance(removal, Drop) else removal.families
                _add(found, removal.grain, removal.day, families_gone)
    return found


def gone_of(found: Gone, grain: Grain, day: date) -> FamilySet:
    """The families of which a grain may be gone of a slot day."""
    return found.get((grain, day.replace(day=1) if grain == "1d" else day), NONE)


def unite(one: FamilySet, other: FamilySet) -> FamilySet:
    """The families that are in one of the sets at least."""
    names, others = frozenset(one.names), frozenset(other.names)
    if one.all_but and other.all_but:
        return FamilySet(tuple(sorted(names & others)), all_but=True)
    if one.all_but or other.all_but:
        left = names - others if one.all_but else others - names
        return FamilySet(tuple(sorted(left)), all_but=True)
    return FamilySet(tuple(sorted(names | others)))


def parse_set(text: str) -> FamilySet:
    """What FamilySet.text() wrote; everything where it is not that."""
    for prefix, all_but in (("only ", False), ("all but ", True)):
        if text.startswith(prefix):
            try:
                return FamilySet(tuple(ast.literal_eval(text.removeprefix(prefix))), all_but)
            except (ValueError, SyntaxError):
                return ALL
    return ALL


def _removable(build: Kept, families: Families) -> Iterable[Drop | Delete]:
    days = {day: 1 for finished, day in build.final if finished == "1d"}
    months = {month: 1 for finished, month in build.final if finished == "life"}
    known = Days(
        now_ms=NEVER_MS,
        present={"1m": days, "1h": days, "1d": months},
        final=dict.fromkeys(build.final, 0),
    )
    return removals(known, build.least_ms + SLACK_MS, families, 0)


def _add(
    found: dict[tuple[Grain, date], FamilySet], grain: Grain, day: date, families: FamilySet
) -> None:
    found[grain, day] = unite(found.get((grain, day), NONE), families)
