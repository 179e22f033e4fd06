"""The registers of very many rows in one hash table, raised a column at a time.

A register that was hit is one number, row * 2^24 + index * 2^8 + rank, at the first place on the
way from its home that was free. Looking up a column is a few operations on whole columns: most are
at home, and those that are not go on together, a step at a time. Only what rises is ever sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.native.loading import kernels
from sketches.registers import of_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sketches.registers import Indexes, Ranks

    Packed = NDArray[np.uint64]
    Rows = NDArray[np.int64]
    Places = NDArray[np.int64]

ROWS_MAX = 1 << 40
_BITS_MIN = 10
_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio: neighbours go far apart
_RANK_BITS = np.uint64(8)
_ROW_BITS = np.uint64(24)


def packed(rows: NDArray[np.int64], indexes: Indexes, ranks: Ranks) -> Packed:
    """Registers as numbers that sort by row, index and rank; rows are from 0 below ROWS_MAX."""
    found = rows.astype(np.uint64) << _ROW_BITS
    found |= indexes.astype(np.uint64) << _RANK_BITS
    found |= ranks
    return found


@dataclass(frozen=True, slots=True)
class Raised:
    """Registers that were raised, by row and index ascending: what a flush has to write."""

    packed: Packed

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Whose register each is."""
        return (self.packed >> _ROW_BITS).astype(np.int64)

    @property
    def indexes(self) -> Indexes:
        """Which register each is."""
        return (self.packed >> _RANK_BITS).astype(np.uint16)

    @property
    def ranks(self) -> Ranks:
        """What each was raised to."""
        return self.packed.astype(np.uint8)

    @classmethod
    def greatest(cls, parts: Sequence[Raised]) -> Raised:
        """Every register that is in any of the parts, once, at its greatest."""
        none = [np.zeros(0, np.uint64)]
        return cls(_greatest(np.concatenate([part.packed for part in parts] or none)))


class RegisterTable:
    """What registers were raised to. Nothing blocks; memory grows with the registers hit."""

    __slots__ = ("_bits", "_entries", "_hit")

    def __init__(self) -> None:
        self._hit = 0
        self._clear(_BITS_MIN)

    def __len__(self) -> int:
        return self._hit

    @property
    def nbytes(self) -> int:
        """The memory of the table: 16 to 32 bytes for each register hit, once it has grown."""
        return self._entries.nbytes

    def entries(self) -> Raised:
        """Every register that was hit."""
        return Raised(np.sort(self._entries[self._entries > 0]))

    def raise_to(self, registers: Packed) -> Raised:
        """Raise registers (see `packed`; in any order) to at least these ranks; those that rose."""
        known = self._entries[self._find(registers >> _RANK_BITS)]
        rising = _greatest(registers[registers > known])
        self._reserve(self._hit + len(rising))
        self._hit += self._put(rising)
        return Raised(rising)

    def raise_members(self, rows: Rows, precisions: Packed, which: Rows, hashed: Packed) -> Raised:
        """Add members by their hashes; `which` says to which of the rows each belongs.

        Rows with a precision of 0 take none. Returns the registers that rose.
        """
        if kernels.are_loaded:
            return self._raise_one_by_one(rows, precisions, which, hashed)
        if not precisions.all():
            chosen = precisions[which] > 0
            which, hashed = which[chosen], hashed[chosen]
        return self.raise_to(packed(rows[which], *of_hashes(hashed, precisions[which])))

    def _raise_one_by_one(
        self, rows: Rows, precisions: Packed, which: Rows, hashed: Packed
    ) -> Raised:
        from pipeline.native.registers import raise_members  # noqa: PLC0415 - loaded late

        raised, counts = np.empty(len(which), np.uint64), np.array([self._hit, 0], np.int64)
        member = 0
        while member < len(which):
            self._reserve(self._hit + 1)
            member = raise_members(
                self._entries, member, rows, precisions, which, hashed, raised, counts
            )
            self._hit = int(counts[0])
        return Raised(_greatest(raised[: counts[1]]))

    def _find(self, keys: Packed) -> Places:
        """Where each key is, or the free place where it would be."""
        at = (keys * _SCATTER >> np.uint64(64 - self._bits)).view(np.int64)
        away, step = np.flatnonzero(self._is_other(at, keys)), 0
        while away.size:
            step += 1  # Ever greater steps come to every place, and keep crowds from growing.
            further = (at[away] + step) & (len(self._entries) - 1)
            at[away] = further
            away = away[self._is_other(further, keys[away])]
        return at

    def _is_other(self, at: Places, keys: Packed) -> NDArray[np.bool_]:
        """Which places hold something else than the key that is looked for there."""
        held = self._entries[at]
        found: NDArray[np.bool_] = (held >> _RANK_BITS != keys) & (held > 0)
        return found

    def _put(self, registers: Packed) -> int:
        """Store registers, given once each; tells how many of them were not there before."""
        fresh = 0
        while registers.size:
            at = self._find(registers >> _RANK_BITS)
            is_free = self._entries[at] == 0
            self._entries[at] = registers
            # Where several found the same free place, one has it now. The others look again.
            is_stored = self._entries[at] == registers
            fresh += int(np.count_nonzero(is_free & is_stored))
            registers = registers[~is_stored]
        return fresh

    def _reserve(self, registers: int) -> None:
        """Make room, so that no more than half of the places are taken."""
        if 2 * registers > len(self._entries):
            held = self._entries[self._entries > 0]
            self._clear((2 * registers - 1).bit_length())
            self._put(held)

    def _clear(self, bits: int) -> None:
        self._bits = bits
        self._entries = np.zeros(1 << bits, np.uint64)


def _greatest(registers: Packed) -> Packed:
    """Each register once, sorted. Of the entries of one, the last has the greatest rank."""
    registers = np.sort(registers)
    keys = registers >> _RANK_BITS
    is_last = np.append(keys[1:] != keys[:-1], True)[: len(registers)]
    found: Packed = registers[is_last]
    return found
