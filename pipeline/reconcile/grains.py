"""Hours and days in ClickHouse against the ledger of a day of log time. Pure.

A day that is over in every shard cannot change. What views answer of it, be it rolled up or not,
must then be what its entries add up to; and so must what is rolled up for good, because minutes go
and nobody will roll it up again. Minutes that differ are told slot by slot, and not here again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.cells import CELL_MAX
from pipeline.reconcile.compared import Difference

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pipeline.ledger import Entry
    from pipeline.reconcile.compared import CellSums, Flushed, Owner, SlotOf
    from pipeline.rollup.retention import Grain

GRAINS: tuple[Grain, ...] = ("1h", "1d")


class DaySums(NamedTuple):
    """What an owner's cells of a day of log time add up to."""

    p: int
    n: int
    duplicates: int


class GrainSums(NamedTuple):
    """A day in one grain: as views answer it, and as it is rolled up.

    `final` are those whose day is rolled up for good, and of whom nothing may be gone yet.
    """

    grain: Grain
    merged: Mapping[Owner, DaySums]
    rolled: Mapping[Owner, DaySums]
    final: frozenset[Owner]


_NOTHING = DaySums(0, 0, 0)
_WHAT = DaySums._fields


def day_ledgers(
    flushed: Mapping[Owner, Flushed],
    entries: Mapping[SlotOf, Entry],
    cells: Mapping[SlotOf, CellSums],
    agreeing: Collection[SlotOf],
) -> dict[Owner, list[Entry]]:
    """The entries of a day, of owners of whom every slot agrees that has an entry or cells."""
    left = {key.owner for key in ({*entries} | {*cells}).difference(agreeing)}
    found: dict[Owner, list[Entry]] = {owner: [] for owner in flushed if owner not in left}
    for key in sorted(entries):
        if key.owner in found:
            found[key.owner].append(entries[key])
    return found


def is_settled(
    rolled: Mapping[Owner, DaySums],
    ledgers: Mapping[Owner, Sequence[Entry]],
    flushed: Mapping[Owner, Flushed],
) -> bool:
    """Whether a grain is rolled up to just what entries add up to, and nobody else has any of it.

    Views take the greater of that and of finer rows, which have to be grouped by cell.
    """
    return flushed.keys() >= rolled.keys() and all(
        rolled.get(owner, _NOTHING) == tuple(sum(_numbers(entries, what)) for what in _WHAT)
        for owner, entries in ledgers.items()
    )


def grain_differences(
    day_ms: int, sums: GrainSums, ledgers: Mapping[Owner, Sequence[Entry]]
) -> Iterator[Difference]:
    """What is wrong in one grain of a day that is over, of the owners in `ledgers`."""
    for owner, entries in sorted(ledgers.items()):
        for what in _WHAT:
            numbers = _numbers(entries, what)
            must, has = sum(numbers), getattr(sums.merged.get(owner, _NOTHING), what)
            rolled = getattr(sums.rolled.get(owner, _NOTHING), what)
            # What a column of the ledger cannot hold is more than it says.
            if has < must or (has > must and CELL_MAX not in numbers):
                yield Difference(owner.shard, day_ms, what, must, has, grain=sums.grain)
            elif owner in sums.final and rolled < must:
                said = f"{what} rolled up"
                yield Difference(owner.shard, day_ms, said, must, rolled, grain=sums.grain)


def strangers(
    day_ms: int,
    sums: GrainSums,
    flushed: Mapping[Owner, Flushed],
    cells: Collection[SlotOf],
) -> Iterator[Difference]:
    """Sums of shards, or under names, that nobody has ever flushed, unless minutes tell of them."""
    told = {key.owner for key in cells}
    for owner, found in sorted(sums.merged.items()):
        if owner not in flushed and owner not in told:
            what = f"cells of replica {owner.replica!r}, which nobody counted in this shard"
            yield Difference(owner.shard, day_ms, what, 0, found.p, grain=sums.grain)


def _numbers(entries: Sequence[Entry], what: str) -> list[int]:
    return [getattr(entry, what) for entry in entries]
