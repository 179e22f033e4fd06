"""What to copy, and what to let go of, by what both sides have. Pure.

ClickHouse numbers the blocks that are inserted into a partition, and a part knows the greatest one
in it, also after merges. So whatever came since the last pass, be it a flush, a late rollup or a
letter that was put back, is in parts whose number is above the one that was noted then. They may
hold older rows as well, which does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pipeline.exchange.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROWS_MAX = 500_000
BYTES_MAX = 64 * 2**20
"""About how much is in memory at once."""

NOTHING = -1
"""The number of the last block copied, where none was."""

_ORDER = {table.name: number for number, table in enumerate(TABLES)}


class Place(NamedTuple):
    """A partition of a table, whatever the build: a day, a month's first day, or nothing."""

    table: str
    day: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a table, as ClickHouse has it on disk. `block` is the greatest number in it."""

    place: Place
    partition_id: str
    block: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the rows of a place that are in blocks above `above`, in so many shares.

    Everything up to `block` is then copied.
    """

    place: Place
    partition_id: str
    above: int
    block: int
    shares: int


def to_copy(parts: Iterable[Part], copied: Mapping[Place, int]) -> list[Copy]:
    """What came since `copied`, by place, coarser tables first.

    Numbers that went back tell of a ClickHouse that was restored: the place is copied whole.
    """
    found: list[Copy] = []
    for place, there in groupby(sorted(parts, key=_order), key=lambda part: part.place):
        of_place = list(there)
        block = max(part.block for part in of_place)
        above = copied.get(place, NOTHING)
        if block != above:
            found.append(_copy(of_place, above if above < block else NOTHING, block))
    return found


def whole(parts: Iterable[Part], places: Iterable[Place]) -> list[Copy]:
    """These places from their first block on."""
    wanted = set(places)
    return to_copy([part for part in parts if part.place in wanted], {})


def gone(there: Iterable[Place], here: Iterable[Place]) -> list[Place]:
    """What is here, and is not there any more. Tables without days lose nothing."""
    return sorted(place for place in {*here} - {*there} if place.day)


def _copy(parts: list[Part], above: int, block: int) -> Copy:
    new = [part for part in parts if part.block > above]
    shares = max(
        1,
        -(-sum(part.rows for part in new) // ROWS_MAX),
        -(-sum(part.bytes for part in new) // BYTES_MAX),
    )
    return Copy(parts[0].place, parts[0].partition_id, above, block, shares)


def _order(part: Part) -> tuple[int, str]:
    return _ORDER[part.place.table], part.place.day
