"""ClickHouse against the ledger, and the ledger against the log's offsets. Pure.

Ledger entries are to be read before cells. A flush writes cells, then entries, then positions; so
where no cell has counted further than the entry, the cells are as they were when it was written,
though the slot is open. A slot that is over at the flushed position cannot change any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.cells import CELL_MAX
from pipeline.reconcile.compared import CellSums, Difference
from pipeline.slots import SLOT_MS, incarnation_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.ledger import Entry
    from pipeline.reconcile.compared import Flushed, Owner, SlotOf

UNOWNED_AGE_MS = 600_000
"""Cells of a shard that was never flushed may be those of its first flush, unless they are older
than what others have flushed by this much."""

_NOTHING = CellSums(0, 0, 0, -1)


def compared_slots(
    flushed: Mapping[Owner, Flushed],
    entries: Mapping[SlotOf, Entry],
    cells: Mapping[SlotOf, CellSums],
) -> list[SlotOf]:
    """The slots of which it can be said whether they agree.

    Not those in which cells are ahead of their entry while the slot is open; nor those that a new
    incarnation reads again after its log was trimmed: rows that the one before has flushed are in
    its ledger, but not in its cells.
    """
    first: dict[tuple[int, int], int] = {}
    known = sorted(key for key in {*entries, *cells} if key.owner in flushed)
    for key in known:
        place, incarnation = (key.shard, key.slot_ms), incarnation_of(key.replica)
        first[place] = min(incarnation, first.get(place, incarnation))
    return [
        key
        for key in known
        if incarnation_of(key.replica) == first[key.shard, key.slot_ms]
        and (_is_over(key, flushed[key.owner]) or _is_still(entries.get(key), cells.get(key)))
    ]


def slot_differences(
    key: SlotOf, entry: Entry | None, sums: CellSums | None
) -> Iterator[Difference]:
    """What is wrong in one of `compared_slots`."""
    if entry is None:
        found = sums or _NOTHING
        yield Difference(key.shard, key.slot_ms, "no entry in the ledger", clickhouse=found.p)
        return
    found = sums or _NOTHING
    for what in ("p", "n", "duplicates"):
        must, has = getattr(entry, what), min(getattr(found, what), CELL_MAX)
        if must != has:
            yield Difference(key.shard, key.slot_ms, what, ledger=must, clickhouse=has)
    if found.through > entry.through:
        yield Difference(key.shard, key.slot_ms, "last offset", entry.through, found.through)
    told = entry.counted + entry.duplicates + entry.refused
    if entry.rows != told:
        yield Difference(key.shard, key.slot_ms, "rows", ledger=told, log=entry.rows)


def unowned(
    flushed: Mapping[Owner, Flushed], cells: Mapping[SlotOf, CellSums]
) -> Iterator[Difference]:
    """Cells of shards, or under names, that nobody has ever flushed."""
    newest_ms = max((one.log_ms for one in flushed.values()), default=0)
    for key, sums in sorted(cells.items()):
        if key.owner not in flushed and key.slot_ms + UNOWNED_AGE_MS <= newest_ms:
            what = f"cells of replica {key.replica!r}, which nobody counted in this shard"
            yield Difference(key.shard, key.slot_ms, what, ledger=0, clickhouse=sums.p)


class Chained(NamedTuple):
    """Where an owner's entries break off: differences, and the last offset that they reach."""

    differences: list[Difference]
    reached: int | None


def chain(entries: list[tuple[SlotOf, Entry]], before: int | None, begins: int | None) -> Chained:
    """Whether one owner's entries, by slot, have every offset of the log in one of them.

    `before` is the last offset of the entries before these. Without any the first has to reach back
    to `begins`, the first offset that the log has of all slots that are kept, if it has one.
    """
    differences: list[Difference] = []
    reached = before
    for key, entry in entries:
        must = begins if reached is None else reached + 1
        misses = must is not None and entry.first > must
        if misses or (reached is not None and entry.first != must):
            differences.append(
                Difference(key.shard, key.slot_ms, "first offset", ledger=entry.first, log=must)
            )
        reached = max(entry.through, -1 if reached is None else reached)
    return Chained(differences, reached)


def _is_over(key: SlotOf, owner: Flushed) -> bool:
    return key.slot_ms + SLOT_MS <= owner.log_ms


def _is_still(entry: Entry | None, sums: CellSums | None) -> bool:
    return entry is not None and (sums is None or sums.through <= entry.through)
