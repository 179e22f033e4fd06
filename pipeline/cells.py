"""Cells: what one shard saw of one counter, in one region and window, during one slot.

Pure: columns in, cells out. No I/O, no clock, no await; nothing here blocks. A cell only grows, and
absorbing the same rows again changes nothing, because a row at or below a cell's `through` is
already in it.

The cells of a slot live together in columns, so that closing the slot is dropping one object, and
so that no Python statement runs per increment: rows are grouped by cell in columns, and only the
groups touch the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import compress, repeat
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from pipeline.caps import Opened, is_sketched, spill
from pipeline.cell_groups import ROWS_MAX, CellGroups, CellSums
from pipeline.cell_keys import WINDOW_MS, CellColumns, CellKey
from pipeline.cell_names import CellNames
from pipeline.slots import SLOT_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pipeline.rules import CountingRules

    Int64Column: TypeAlias = NDArray[np.int64]
    BoolColumn: TypeAlias = NDArray[np.bool_]

__all__ = ["SLOT_MS", "WINDOW_MS", "Came", "CellKey", "CellValues", "SlotCells", "SlotSnapshot"]

assert SLOT_MS % WINDOW_MS == 0

Purpose = Literal["flush", "checkpoint"]
"""Why a cell is dirty: ClickHouse has not confirmed it, or the changelog has not."""

CELL_MAX = 2**63 - 1
"""What p and n can be at most. A row that would pass it is refused, in log order."""

ROW_COLUMNS = ("counter", "region", "window_ms", "p", "n", "offset", "duplicates")
"""What `absorb` needs of each row; the last may be left out when there are none."""

_INITIAL_ROWS = 64


class Came(IntEnum):
    """What came of a row that was counted by itself."""

    COUNTED = 0
    SPILLED = 1  # into the cell for the rest of its family
    TOO_MUCH = 2  # its cell would overflow


@dataclass(frozen=True, slots=True)
class CellValues:
    """Some cells of one slot at one moment: `keys[i]` belongs to row i of every column."""

    keys: list[str]
    p: Int64Column
    n: Int64Column
    through: Int64Column
    first: Int64Column
    """The offset that opened the cell. A cell whose `first` is not reached is not open yet."""
    duplicates: Int64Column
    """How many increments were skipped here because their id or member had been counted."""


@dataclass(frozen=True, slots=True)
class SlotSnapshot:
    """A copy of a slot's dirty cells, which `confirm` takes out of the dirty set."""

    cells: SlotCells
    purpose: Purpose
    rows: Int64Column
    changes: Int64Column
    values: CellValues

    def names(self) -> CellColumns:
        """Counter, region and window of each: what a cell is called never changes."""
        return self.cells.names.of(self.rows, self.values.keys)

    def confirm(self) -> None:
        """The values are stored. A cell that changed since the snapshot stays dirty."""
        self.cells.confirmed[self.purpose][self.rows] = self.changes


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows that were counted: which of them spilled, and the cells that they were counted in."""

    spilled: BoolColumn
    groups: CellGroups

    @classmethod
    def of(cls, rows: pa.Table, spilled: BoolColumn, rules: CountingRules) -> Counted:
        """What spilled is for the cell for the rest of its family."""
        return cls(spilled, CellGroups.of_rows(spill(rows, spilled, rules)))


class SlotCells:
    """The cells one shard touched during one slot."""

    def __init__(self, slot_ms: int) -> None:
        self.slot_ms = slot_ms
        self._index: dict[str, int] = {}
        self._keys: list[str] = []
        self.names = CellNames()
        self.opened = Opened()
        self._p = _zeros(_INITIAL_ROWS)
        self._n = _zeros(_INITIAL_ROWS)
        self._through = _zeros(_INITIAL_ROWS)
        self._first = _zeros(_INITIAL_ROWS)
        self._duplicates = _zeros(_INITIAL_ROWS)
        # A change is numbered by its shard. A cell is dirty for a purpose while the change it last
        # saw is newer than the change that was last confirmed for that purpose.
        self._changed = _zeros(_INITIAL_ROWS)
        self.confirmed: dict[Purpose, Int64Column] = {
            "flush": _zeros(_INITIAL_ROWS),
            "checkpoint": _zeros(_INITIAL_ROWS),
        }

    def __len__(self) -> int:
        return len(self._keys)

    def absorb(
        self, rows: pa.Table, change: int, rules: CountingRules, *, guard: bool
    ) -> Counted | None:
        """Count `rows` (see ROW_COLUMNS; in log order) into their cells.

        With `guard`, rows at or below their cell's `through` are skipped; without it the caller
        promises that no cell here has seen any of them. `change` is greater than every one before.
        Returns None, having counted nothing, if rows have to be looked at one by one: because a
        cell would overflow, or because cells are ahead and a family may open no more of them.
        """
        if rows.num_rows > ROWS_MAX:
            return None
        counted = Counted.of(rows, is_sketched(rows["counter"], rules), rules)
        if self._absorb(rows, counted.groups, change, rules, guard=guard):
            return counted
        if guard:
            return None
        counted = Counted.of(rows, counted.spilled | self._beyond_cap(rows, rules), rules)
        fits = self._absorb(rows, counted.groups, change, rules, guard=False)
        return counted if fits else None

    def _absorb(
        self,
        rows: pa.Table,
        groups: CellGroups,
        change: int,
        rules: CountingRules,
        *,
        guard: bool,
    ) -> bool:
        touched = groups
        if guard:
            unseen = self._unseen(rows, groups)
            rows, groups = rows.filter(pa.array(unseen)), groups.where(unseen)
        sums, at = CellSums.of(rows, groups), self._find(groups.keys)
        if self._overflows(at, sums.p, sums.n) or not (
            self.opened.reach(touched.counter_of(), self._index, rules)
            if guard
            else self.opened.admit(groups.counters, at < 0, rules)
        ):
            return False
        self._open(groups.keys, at, sums.first, groups)
        self._p[at] += sums.p
        self._n[at] += sums.n
        self._through[at] = np.maximum(self._through[at], sums.last)
        self._changed[at] = change
        if sums.duplicates is not None:
            self._duplicates[at] += sums.duplicates
        return True

    def add(self, key: str, delta: int, offset: int, change: int) -> bool:
        """Count one row, as `absorb` with a guard does; cheaper than a table for a few rows.

        A delta of 0 is a duplicate. Whether a new cell may be opened is the caller's to ask.
        Returns False, having counted nothing, if the cell would overflow.
        """
        row = self._index.get(key)
        if row is None:
            row = self._open_one(key, offset)
        elif offset < self._through[row] or (
            offset == self._through[row] and self._changed[row] != change
        ):
            return True
        column = self._p if delta > 0 else self._n
        if column[row] > CELL_MAX - abs(delta):
            return False
        column[row] += abs(delta)
        if not delta:
            self._duplicates[row] += 1
        self._through[row] = offset
        self._changed[row] = change
        return True

    def has(self, key: str) -> bool:
        """Whether the cell is open at the shard's position."""
        return key in self._index and key not in self.opened.ahead

    def restore(self, values: CellValues, change: int, position: int, rules: CountingRules) -> None:
        """Put recovered cells back, dirty for both purposes; the greater `through` wins.

        Cells that were opened at or after `position` are ahead of it, and open only in memory.
        """
        at = self._find(values.keys)
        self._open(values.keys, at, values.first)
        newer = values.through >= self._through[at]
        rows = at[newer]
        self._p[rows] = values.p[newer]
        self._n[rows] = values.n[newer]
        self._through[rows] = values.through[newer]
        self._first[rows] = values.first[newer]
        self._duplicates[rows] = values.duplicates[newer]
        self._changed[rows] = change
        self.opened.ahead.update(compress(values.keys, (values.first >= position).tolist()))
        self.recount(rules)

    def recount(self, rules: CountingRules) -> None:
        """Count the open cells anew, by the families that `rules` name."""
        ahead = self.opened.ahead
        is_open = np.fromiter((key not in ahead for key in self._keys), np.bool_, len(self._keys))
        names = self.names.of(np.arange(len(self._keys)), self._keys)
        self.opened.recount(names.counters.filter(pa.array(is_open)), rules)

    def snapshot(self, purpose: Purpose) -> SlotSnapshot:
        """A copy of the cells that are dirty for `purpose`, possibly none."""
        size = len(self._keys)
        rows = (self._changed[:size] > self.confirmed[purpose][:size]).nonzero()[0]
        return SlotSnapshot(self, purpose, rows, self._changed[rows], self._values(rows))

    def checkpointed_keys(self) -> list[str]:
        """The cells that an earlier checkpoint has written, as they were then."""
        written = self.confirmed["checkpoint"][: len(self._keys)] > 0
        return list(compress(self._keys, written.tolist()))

    def is_clean(self) -> bool:
        """True when no cell is dirty for any purpose."""
        size = len(self._keys)
        changed = self._changed[:size]
        return all(bool((changed <= column[:size]).all()) for column in self.confirmed.values())

    def values(self) -> CellValues:
        """A copy of every cell."""
        return self._values(np.arange(len(self._keys), dtype=np.int64))

    def greatest_through(self) -> int:
        """The last offset any cell here has counted, -1 for none."""
        size = len(self._keys)
        return int(self._through[:size].max()) if size else -1

    def _values(self, rows: Int64Column) -> CellValues:
        keys = list(map(self._keys.__getitem__, rows.tolist()))
        return CellValues(
            keys,
            self._p[rows],
            self._n[rows],
            self._through[rows],
            self._first[rows],
            self._duplicates[rows],
        )

    def _unseen(self, rows: pa.Table, groups: CellGroups) -> BoolColumn:
        """Which rows are after their cell's `through`."""
        found = self._find(groups.keys)[groups.which]
        # Row -1 reads some other cell's value, which the second condition then disregards.
        unseen: BoolColumn = (rows["offset"].to_numpy() > self._through[found]) | (found < 0)
        return unseen

    def _beyond_cap(self, rows: pa.Table, rules: CountingRules) -> BoolColumn:
        """Which rows are for cells that may not be opened any more, in log order."""
        groups = CellGroups.of_rows(rows)
        beyond = self._find(groups.keys) < 0
        names = groups.counters.filter(pa.array(beyond)).to_pylist()
        beyond[beyond] = self.opened.beyond(names, rules)
        return beyond[groups.which]

    def _find(self, keys: Sequence[str]) -> Int64Column:
        """The row of each key, -1 for those that have none."""
        return np.fromiter(map(self._index.get, keys, repeat(-1)), np.int64, len(keys))

    def _overflows(self, at: Int64Column, p: Int64Column, n: Int64Column) -> bool:
        known = at >= 0
        at = at[known]
        return bool(
            (self._p[at] > CELL_MAX - p[known]).any() or (self._n[at] > CELL_MAX - n[known]).any()
        )

    def _open(
        self,
        keys: Sequence[str],
        at: Int64Column,
        first: Int64Column,
        groups: CellGroups | None = None,
    ) -> None:
        """Give each key (all different) whose place in `at` is -1 a row of zeros, and its place.

        `groups` are the cells of the keys, where they are at hand.
        """
        fresh = at < 0
        count = int(np.count_nonzero(fresh))
        if not count:
            return
        size = len(self._keys)
        self._reserve(size + count)
        at[fresh] = np.arange(size, size + count)
        new_keys = list(compress(keys, fresh.tolist()))
        if groups is not None:
            self.names.add(self._keys, groups, fresh)
        self._keys.extend(new_keys)
        self._index.update(zip(new_keys, range(size, size + count), strict=True))
        self._through[size : size + count] = -1
        self._first[size : size + count] = first[fresh]

    def _open_one(self, key: str, first: int) -> int:
        """As `_open`, for a key that has no row, without the price of columns; tells its row."""
        row = len(self._keys)
        self._reserve(row + 1)
        self._keys.append(key)
        self._index[key] = row
        self._through[row] = -1
        self._first[row] = first
        return row

    def _reserve(self, rows: int) -> None:
        capacity = len(self._p)
        if rows <= capacity:
            return
        while capacity < rows:
            capacity *= 2
        self._p = _grown(self._p, capacity)
        self._n = _grown(self._n, capacity)
        self._through = _grown(self._through, capacity)
        self._first = _grown(self._first, capacity)
        self._duplicates = _grown(self._duplicates, capacity)
        self._changed = _grown(self._changed, capacity)
        for purpose, column in self.confirmed.items():
            self.confirmed[purpose] = _grown(column, capacity)


def _zeros(rows: int) -> Int64Column:
    return np.zeros(rows, np.int64)


def _grown(column: Int64Column, capacity: int) -> Int64Column:
    grown = _zeros(capacity)
    grown[: len(column)] = column
    return grown
