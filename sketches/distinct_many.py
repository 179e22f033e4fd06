"""Distinct members of very many things at once: the registers of all of them in sorted columns.

A sketch per counter and window is mostly tiny, and an object for each would cost more than what is
in it. Here a register that was hit is one number, row * 2^24 + index * 2^8 + rank, in one of two
sorted arrays: a large one, and a small one that takes what is new. The registers are exactly those
of a `Distinct` per row, which a test shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import BadInputError
from sketches.distinct import Distinct
from sketches.registers import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from sketches.hashing import Column
    from sketches.registers import Indexes, Ranks

_NOTHING = np.zeros(0, np.uint64)
ROWS_MAX = (1 << 40) - 1  # so that the number after the last fits as well
_SMALL_MAX = 1 << 14


@dataclass(frozen=True, slots=True)
class Raised:
    """Registers that were raised, by row and index ascending: what a flush has to write."""

    packed: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Whose register each is."""
        return (self.packed >> np.uint64(24)).astype(np.int64)

    @property
    def indexes(self) -> Indexes:
        """Which register each is."""
        return (self.packed >> np.uint64(8)).astype(np.uint16)

    @property
    def ranks(self) -> Ranks:
        """What each was raised to."""
        return self.packed.astype(np.uint8)

    @classmethod
    def greatest(cls, parts: Sequence[Raised]) -> Raised:
        """Every register that is in any of the parts, once, at its greatest."""
        return cls(_greatest(np.concatenate([part.packed for part in parts] or [_NOTHING])))


class DistinctMany:
    """A sketch for every row number. Nothing blocks; BadInputError leaves all as they were."""

    __slots__ = ("_large", "_small", "precision")

    def __init__(self, precision: int) -> None:
        self.precision = Distinct(precision).precision
        self._large = _NOTHING
        self._small = _NOTHING

    @classmethod
    def for_error(cls, error: float) -> DistinctMany:
        """As `Distinct.for_error`."""
        return cls(Distinct.for_error(error).precision)

    @property
    def nbytes(self) -> int:
        """The memory of all registers."""
        return self._large.nbytes + self._small.nbytes

    def add_many(self, rows: ArrayLike, members: Column) -> Raised:
        """Add each member to the sketch of its row; tells which registers rose."""
        numbers = np.asarray(rows, np.int64)
        indexes, ranks = placed(members, self.precision)
        if numbers.shape != indexes.shape:
            raise BadInputError(f"{numbers.size} rows for {indexes.size} members do not fit")
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < ROWS_MAX:
            raise BadInputError(f"rows are numbered from 0 to {ROWS_MAX - 1}")
        packed = numbers.astype(np.uint64) << np.uint64(24)
        packed |= indexes.astype(np.uint64) << np.uint64(8)
        packed |= ranks
        return Raised(self._raise_to(_greatest(packed)))

    def sketch(self, row: int) -> Distinct:
        """The sketch of one row, empty if nothing was ever added to it."""
        made = Distinct(self.precision)
        ends = np.array([row, row + 1], np.uint64) << np.uint64(24)
        for kept in (self._large, self._small):
            start, end = np.searchsorted(kept, ends)
            found = Raised(kept[start:end])
            made.merge(Distinct.from_registers(self.precision, found.indexes, found.ranks))
        return made

    def _raise_to(self, packed: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Raise registers, given once each, to at least these ranks; returns those that rose."""
        is_new = np.ones(len(packed), np.bool_)
        is_raised = np.ones(len(packed), np.bool_)
        for kept in (self._large, self._small):
            if not kept.size:
                continue
            at = np.searchsorted(kept, packed | np.uint64(0xFF), "right") - 1
            found = kept[np.maximum(at, 0)]
            is_here = (at >= 0) & (found >> np.uint64(8) == packed >> np.uint64(8))
            is_greater = is_here & (packed > found)
            kept[at[is_greater]] = packed[is_greater]
            is_raised &= ~is_here | is_greater
            is_new &= ~is_here
        if is_new.any():
            self._small = np.sort(np.concatenate((self._small, packed[is_new])), kind="stable")
            if len(self._small) > max(_SMALL_MAX, len(self._large) // 8):
                whole = np.concatenate((self._large, self._small))
                self._large = np.sort(whole, kind="stable")
                self._small = _NOTHING
        return packed[is_raised]


def _greatest(packed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each register once, sorted. Of the entries of one, the last has the greatest rank."""
    packed = np.sort(packed)
    registers = packed >> np.uint64(8)
    is_last = np.append(registers[1:] != registers[:-1], True)[: len(packed)]
    found: NDArray[np.uint64] = packed[is_last]
    return found
