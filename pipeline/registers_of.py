"""Whose registers they are: one by one, and in columns. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.rules import Grain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.cells import BoolColumn, Int64Column

SLOT: Literal["slot"] = "slot"
Written = Grain | Literal["slot"]
"""The grain of the windows that registers are written for, or the slot of log time they rose in."""


class Kept(NamedTuple):
    """Which registers of a family's counters are kept: none where the precision is 0."""

    precision: int
    written: tuple[Written, ...]
    window_ms: int
    """How long their windows are; 0 where the window is the slot, whenever it happened."""


class RegistersOf(NamedTuple):
    """Whose registers: a counter's in a region and window, and where they are to be written."""

    counter: str
    region: str
    window_ms: int
    day: int
    """The day of log time, since 1970."""
    precision: int
    grains: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Whose:
    """A column of `RegistersOf`, all of one day."""

    counters: pa.Array
    regions: pa.Array
    windows_ms: Int64Column
    families: Int64Column
    """Which of `kept` each is by."""
    kept: Sequence[Kept]
    day: int

    def __len__(self) -> int:
        return len(self.families)

    def __getitem__(self, row: int) -> RegistersOf:
        kept = self.kept[self.families[row]]
        return RegistersOf(
            self.counters[row].as_py(),
            self.regions[row].as_py(),
            int(self.windows_ms[row]),
            self.day,
            kept.precision,
            kept.written,
        )

    def __iter__(self) -> Iterator[RegistersOf]:
        return map(self.__getitem__, range(len(self)))

    @property
    def precisions(self) -> Int64Column:
        """The precision of each."""
        return np.array([one.precision for one in self.kept], np.int64)[self.families]

    def are_for(self, written: Written) -> BoolColumn:
        """Which of them are to be written there."""
        return np.array([written in one.written for one in self.kept], np.bool_)[self.families]

    def take(self, rows: Int64Column) -> Whose:
        """Those of some rows."""
        chosen = pa.array(rows, pa.int64())
        return replace(
            self,
            counters=self.counters.take(chosen),
            regions=self.regions.take(chosen),
            windows_ms=self.windows_ms[rows],
            families=self.families[rows],
        )
