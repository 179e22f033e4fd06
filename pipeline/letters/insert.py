"""Puts cells that were set aside into their table, and into the sums that were rolled up of it.

The leader does not roll up again what it has recorded as rolled up, so the sums are written here:
what finer cells add up to, and what the inserted cells add to that. Such a sum is never more than
the truth, however late it is written and whatever is rolled up or dropped meanwhile, and tables
keep the greatest. It would be hidden, however, by a greater sum whose finer cells are gone; such
cells are left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from operator import add, ge, sub
from typing import TYPE_CHECKING, Protocol

from pipeline.letters.cell import read_cell
from pipeline.letters.sums import GRAINS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pipeline.clock import Clock
    from pipeline.letters.cell import CellId, Grain, SetAsideCell, SumKey, Values
    from pipeline.letters.letter import LetterKey
    from pipeline.letters.retry import Letters, RetryMemory
    from pipeline.letters.sums import Sums

CHUNK_CELLS = 100
"""So many are inserted, added up and remembered together."""

INSERTED = "inserted before"
GONE = (
    "past retention: the cells they would be added up with are gone, so it is not known what is "
    "missing; a rebuild counts them while the log has their records"
)
UNREADABLE = "not in the topic any more, or no cell of this build"

_NOTHING = (0, 0, 0)


@dataclass(slots=True)
class Inserted:
    """Of how many letters the cells are counted now, and of how many not, by reason."""

    letters: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def left(self) -> int:
        """How many should have been inserted and were not."""
        return self.skipped.total() - self.skipped[INSERTED]


class CellTable(Protocol):
    """Where cells of one minute are."""

    def insert(self, cells: Sequence[SetAsideCell]) -> Mapping[int, str]:
        """Return when those that are taken are stored; the others' places, with reasons."""
        ...


class SumsOfCells(Protocol):
    """Where cells are added up. The greatest of what is written is kept."""

    def read(self, cells: Sequence[SetAsideCell]) -> Sums: ...

    def write(self, grain: Grain, sums: Mapping[SumKey, Values]) -> None: ...


def insert(
    keys: Sequence[LetterKey],
    build: int,
    *,
    letters: Letters,
    table: CellTable,
    sums: SumsOfCells,
    memory: RetryMemory,
    clock: Clock,
) -> Inserted:
    """Insert the cells of these letters, and remember them as retried. Blocks.

    Raises TryAgainError when a server is away, OperatorError when ClickHouse takes nothing; what
    was inserted until then is remembered, or inserted again to no effect.
    """
    done = Inserted()
    found = _cells(keys, build, letters, done.skipped)
    while chunk := dict(islice(found, CHUNK_CELLS)):
        taken = _insert(chunk, table, sums, done.skipped)
        if taken:
            memory.record_retries(taken, clock.now_ms())
        done.letters += len(taken)
    return done


def _insert(
    chunk: Mapping[LetterKey, SetAsideCell],
    table: CellTable,
    sums: SumsOfCells,
    skipped: Counter[str],
) -> list[LetterKey]:
    """The letters of a chunk whose cells are in all tables now."""
    before = sums.read(list(chunk.values()))
    whole = {key: cell for key, cell in chunk.items() if is_whole(cell, before)}
    skipped[GONE] += len(chunk) - len(whole)
    refused = table.insert(list(whole.values())) if whole else {}
    skipped.update(f"ClickHouse refuses them still: {why}" for why in refused.values())
    taken = {key: cell for at, (key, cell) in enumerate(whole.items()) if at not in refused}
    if taken:
        cells = list(taken.values())
        # Once more, so that of two who insert at once the later one has the other's cells, too.
        after = sums.read(cells)
        for grain, raised in raised_sums(cells, before).items():
            now = after.added[grain]
            sums.write(grain, {key: _greatest(raised[key], now.get(key)) for key in raised})
    return list(taken)


def is_whole(cell: SetAsideCell, sums: Sums) -> bool:
    """Whether nothing is gone of what the cell is added up with. Pure.

    Sums are rolled up from finer cells; one that is greater than what these add up to now tells
    that some of them were dropped.
    """
    keys = {grain: cell.sum_key(grain) for grain in GRAINS}
    return all(
        all(map(ge, sums.added[grain].get(key, _NOTHING), sums.rolled[grain].get(key, _NOTHING)))
        for grain, key in keys.items()
    )


def raised_sums(cells: Sequence[SetAsideCell], before: Sums) -> dict[Grain, dict[SumKey, Values]]:
    """The sums that cells belong in, with these cells in them; finer grains first. Pure.

    Several may be one cell at different times, of which the greatest values hold.
    """
    greatest: dict[CellId, Values] = {}
    for cell in cells:
        greatest[cell.id] = _greatest(cell.values, greatest.get(cell.id))
    raised: dict[Grain, dict[SumKey, Values]] = {grain: {} for grain in reversed(GRAINS)}
    for one, cell in {cell.id: cell for cell in cells}.items():
        known = before.cells.get(one, _NOTHING)
        more = _each(sub, _greatest(greatest[one], known), known)
        for grain, sums in raised.items():
            key = cell.sum_key(grain)
            sums[key] = _each(add, sums.get(key, before.added[grain].get(key, _NOTHING)), more)
    return raised


def _greatest(values: Values, others: Values | None) -> Values:
    return values if others is None else _each(max, values, others)


def _each(function: Callable[[int, int], int], values: Values, others: Values) -> Values:
    p, n, duplicates = map(function, values, others)
    return p, n, duplicates


def _cells(
    keys: Sequence[LetterKey], build: int, letters: Letters, skipped: Counter[str]
) -> Iterator[tuple[LetterKey, SetAsideCell]]:
    found = 0
    for letter in letters.find(keys):
        cell = None if letter.is_cut else read_cell(letter.value)
        if cell is not None and cell.build == build:
            found += 1
            yield letter.key, cell
    if found < len(keys):
        skipped[UNREADABLE] += len(keys) - found
