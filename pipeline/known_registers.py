"""What a shard knows of registers: what they were raised to, and which wait to be written. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.cell_groups import ROWS_MAX as FETCH_ROWS
from pipeline.cells import WINDOW_MS
from pipeline.counter_numbers import ERA_MS, ERA_WINDOWS, NUMBERS_MAX
from pipeline.registers_of import Whose
from sketches.register_table import ROWS_MAX, RegisterTable
from sketches.register_table import Raised as RaisedRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pipeline.cells import Int64Column
    from pipeline.counter_numbers import CounterNumbers
    from pipeline.registers_of import Kept
    from sketches.registers import Indexes, Ranks

DAY_MS = 86_400_000

REGISTERS_MAX = 1_000_000
"""How many registers of windows are known to a shard, and as many of slots, in 16 MB each; then it
begins anew."""

_WINDOW_BITS = 16
_WINDOW_MASK = (1 << _WINDOW_BITS) - 1
assert ERA_WINDOWS <= 1 << _WINDOW_BITS
assert NUMBERS_MAX + 8 * FETCH_ROWS <= ROWS_MAX >> _WINDOW_BITS, "a number and a window fit"


@dataclass(frozen=True, slots=True)
class Raised:
    """Registers that rose: those of `of[i]` are from `starts[i]` up to `starts[i + 1]`."""

    of: Whose
    starts: NDArray[np.int32]
    indexes: Indexes
    ranks: Ranks


class KnownRegisters:
    """Registers of a day or a slot of log time, which began at `since_ms`.

    `kept` has which of them are kept, by the number of the family.
    """

    def __init__(self, names: CounterNumbers, kept: Sequence[Kept], since_ms: int) -> None:
        self.names = names
        self.since_ms = since_ms
        self.waiting: list[RaisedRows] = []
        self._kept = kept
        self._precisions = np.array([one.precision for one in kept], np.uint64)
        self._lengths_ms = np.array([one.window_ms for one in kept], np.int64)
        self._table = RegisterTable()

    @property
    def is_full(self) -> bool:
        """Whether to begin anew with another."""
        return len(self._table) > REGISTERS_MAX

    def close(self) -> None:
        """Nothing will be added any more: keep only what it takes to write what waits."""
        self._table = RegisterTable()

    def precisions(self, numbers: Int64Column) -> NDArray[np.uint64]:
        """Of the registers of counters with these numbers; 0 where none are kept."""
        return self._precisions[self.names.families[numbers]]

    def add(
        self,
        numbers: Int64Column,
        windows_ms: Int64Column,
        which: Int64Column,
        hashed: NDArray[np.uint64],
    ) -> None:
        """Add members, by their hashes; `which` says to whose registers of these each belongs."""
        rows, precisions = self._rows(numbers, windows_ms), self.precisions(numbers)
        if len(raised := self._table.raise_members(rows, precisions, which, hashed)):
            self.waiting.append(raised)

    def raised(self) -> Raised:
        """What waits, once each, at its greatest."""
        found = RaisedRows.greatest(self.waiting)
        rows, starts = np.unique(found.rows, return_index=True)
        ends = np.append(starts, len(found)).astype(np.int32)
        return Raised(self._whose(rows), ends, found.indexes, found.ranks)

    def _rows(self, numbers: Int64Column, windows_ms: Int64Column) -> Int64Column:
        """A row for the registers of each counter, region and window that is kept."""
        lengths_ms = self._lengths_ms[self.names.families[numbers]]
        starts_ms = windows_ms - windows_ms % np.maximum(lengths_ms, 1)
        windows = np.where(lengths_ms > 0, starts_ms % ERA_MS // WINDOW_MS, 0)
        return numbers << _WINDOW_BITS | windows

    def _whose(self, rows: Int64Column) -> Whose:
        """The inverse of `_rows`."""
        numbers = rows >> _WINDOW_BITS
        names, families = self.names.names(numbers), self.names.families[numbers]
        starts_ms = names["era_ms"].to_numpy() + (rows & _WINDOW_MASK) * WINDOW_MS
        return Whose(
            names["counter"].chunk(0),
            names["region"].chunk(0),
            np.where(self._lengths_ms[families] > 0, starts_ms, self.since_ms),
            families,
            self._kept,
            self.since_ms // DAY_MS,
        )
