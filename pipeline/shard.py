"""A shard's state: one partition's position, log time and live cells.

Pure, like the cells it holds. What becomes of a row depends on the log alone: its order, its bytes
and its timestamps. So a new owner, a zombie and a replay compute the same cells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.cells import SLOT_MS, WINDOW_MS, CellValues, Purpose, SlotCells, SlotSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.cells import Int64Column

NOTHING_COUNTED = -1


@dataclass(frozen=True, slots=True)
class Rules:
    """How far from log time an event's `at` may be."""

    lateness_ms: int = 86_400_000
    earliness_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A well-formed row that log time refuses: too late, or too far in the future."""

    offset: int
    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class ShardSnapshot:
    """A shard at one moment: its position, and a copy of what is dirty for each purpose."""

    shard: Shard
    position: int
    log_ms: int
    flush: list[SlotSnapshot]
    checkpoint: list[SlotSnapshot]

    def confirm(self, purpose: Purpose) -> None:
        """What the snapshot holds for `purpose` is stored."""
        for part in self.flush if purpose == "flush" else self.checkpoint:
            part.confirm()


@dataclass(slots=True)
class Shard:
    """One partition as its owner sees it.

    `position` is the next offset to count; `log_ms` is the greatest log timestamp so far, which is
    the time that slots and lateness go by. Not thread-safe: one event loop owns it.
    """

    partition: int
    position: int = 0
    log_ms: int = 0
    rules: Rules = field(default_factory=Rules)
    slots: dict[int, SlotCells] = field(default_factory=dict)
    # Recovered cells may be ahead of the position. Up to this offset rows are compared with their
    # cell's `through`; past it no cell can have seen them and the comparison is saved.
    _guard_through: int = NOTHING_COUNTED
    _changes: int = 0

    def absorb(
        self, columns: pa.Table, offsets: Int64Column, timestamps_ms: Int64Column, next_offset: int
    ) -> list[Misplaced]:
        """Count decoded rows and move the position to `next_offset`.

        `columns` has the decoder's columns; `offsets` and `timestamps_ms` are of all records of the
        fetch, good or bad, because all of them move log time. Returns the rows that were refused.
        """
        self._changes += 1
        if len(offsets):
            log_ms = np.maximum.accumulate(np.maximum(timestamps_ms, self.log_ms))
            misplaced = self._absorb_rows(columns, offsets, log_ms)
            self.log_ms = int(log_ms[-1])
        else:
            misplaced = []
        self.position = max(self.position, next_offset)
        return misplaced

    def restore(self, slot_ms: int, values: CellValues) -> None:
        """Put back recovered cells of a slot, dirty for both purposes."""
        self._changes += 1
        cells = self._slot(slot_ms)
        cells.restore(values, self._changes)
        self._guard_through = max(self._guard_through, cells.greatest_through())

    def snapshot(self, *, checkpoint: bool) -> ShardSnapshot:
        """The position and copies of the cells to flush, and to checkpoint if asked for."""
        return ShardSnapshot(
            self,
            self.position,
            self.log_ms,
            self._dirty("flush"),
            self._dirty("checkpoint") if checkpoint else [],
        )

    def close_slots(self, log_ms: int) -> list[SlotCells]:
        """Let go of the clean slots that were over at `log_ms`, a committed position's log time.

        No row after that position can fall into them, so they never change again.
        """
        over = slot_of(log_ms)
        closed = [
            cells for slot_ms, cells in self.slots.items() if slot_ms < over and cells.is_clean()
        ]
        for cells in closed:
            del self.slots[cells.slot_ms]
        return closed

    def live_cells(self) -> int:
        """How many cells are in memory."""
        return sum(map(len, self.slots.values()))

    def _absorb_rows(
        self, columns: pa.Table, offsets: Int64Column, log_ms: Int64Column
    ) -> list[Misplaced]:
        row_offset = columns["offset"].to_numpy()
        row_log_ms = log_ms[np.searchsorted(offsets, row_offset)]
        at_ms = columns["at"].to_numpy()
        late = at_ms < row_log_ms - self.rules.lateness_ms
        early = at_ms > row_log_ms + self.rules.earliness_ms
        placed = ~(late | early)
        misplaced: list[Misplaced] = []
        if not placed.all():
            misplaced = list(self._misplaced(columns, late, early))
            columns = columns.filter(pa.array(placed))
            at_ms, row_log_ms = at_ms[placed], row_log_ms[placed]
        rows = _cell_rows(columns, at_ms)
        for first, end in _runs(row_log_ms // SLOT_MS):
            part = rows.slice(first, end - first)
            guard = part["offset"][0].as_py() <= self._guard_through
            cells = self._slot(slot_of(int(row_log_ms[first])))
            cells.absorb(part, self._changes, guard=guard)
        return misplaced

    def _misplaced(
        self, columns: pa.Table, late: np.ndarray, early: np.ndarray
    ) -> Iterator[Misplaced]:
        for index in np.flatnonzero(late | early).tolist():
            reason = (
                f"at: more than {self.rules.lateness_ms // 1000} s before log time, too late"
                if late[index]
                else f"at: more than {self.rules.earliness_ms // 1000} s ahead of log time"
            )
            offset, row = columns["offset"][index].as_py(), columns["row"][index].as_py()
            yield Misplaced(offset, row, reason)

    def _dirty(self, purpose: Purpose) -> list[SlotSnapshot]:
        parts = (cells.snapshot(purpose) for cells in self.slots.values())
        return [part for part in parts if len(part.rows)]

    def _slot(self, slot_ms: int) -> SlotCells:
        cells = self.slots.get(slot_ms)
        if cells is None:
            cells = self.slots[slot_ms] = SlotCells(slot_ms)
        return cells


def slot_of(log_ms: int) -> int:
    """When the slot of a log time began, in milliseconds since 1970."""
    return log_ms - log_ms % SLOT_MS


def _cell_rows(columns: pa.Table, at_ms: Int64Column) -> pa.Table:
    """What a cell needs of each row: its key's parts, and its delta as an addition or a removal."""
    delta = columns["delta"].to_numpy()
    return pa.table(
        {
            "counter": columns["counter"],
            "region": columns["region"],
            "window_ms": at_ms - at_ms % WINDOW_MS,
            "p": np.maximum(delta, 0),
            "n": np.maximum(-delta, 0),
            "offset": columns["offset"],
        }
    )


def _runs(slots: Int64Column) -> Iterator[tuple[int, int]]:
    """Where each slot's rows begin and end: log time only grows, so they are neighbours."""
    if len(slots):
        cuts = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
        yield from pairwise(cuts)
