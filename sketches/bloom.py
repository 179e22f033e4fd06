"""A set that only grows, in a few bytes a member: Bloom filters, one after the other. Pure.

Whoever is in is always found; who is not may be taken for one who is. The share of those is at most
`error`, however many there are: a filter that has as many as it was made for is followed by one for
four times as many with half the error, so that all errors together stay below the one asked for.

Members are given as the two halves of a hash of 128 bits, which give the bits of each filter
(Kirsch and Mitzenmacher: two hashes do as well as many). State depends on the members and their
order alone, never on how they were cut into calls.

Bits that are stored have neither head nor version here: they are in changelogs alone, whose format
(pipeline/changelog.py) stands for them. Other bits for a member need another format there, since
what was stored before would be read without a word, and everybody would count again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pipeline.errors import BadInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Halves: TypeAlias = NDArray[np.uint64]
    Flags: TypeAlias = NDArray[np.bool_]

FIRST_CAPACITY = 4_096
GROWTH = 4
ERROR_MIN = 1e-9
"""Far below what rules allow; no filter of a smaller error is read."""


@dataclass(slots=True)
class _Stage:
    """One filter: how many it is for, how many bits each of them has, and the bits."""

    capacity: int
    hashes: int
    bits: NDArray[np.uint8]
    filled: int = 0

    @classmethod
    def number(cls, number: int, error: float) -> _Stage:
        """An empty one; the first is number 0."""
        capacity, size = _planned(number, error)
        hashes = max(1, round(size / capacity * math.log(2)))
        return cls(capacity, hashes, np.zeros(-(-size // 8), np.uint8))

    def places(self, high: Halves, low: Halves) -> NDArray[np.uint64]:
        """The bits of each member, in a row of its own."""
        steps = np.arange(self.hashes, dtype=np.uint64)
        odd = low | np.uint64(1)
        found: NDArray[np.uint64] = (high[:, None] + steps * odd[:, None]) % np.uint64(
            8 * len(self.bits)
        )
        return found

    def has(self, places: NDArray[np.uint64]) -> Flags:
        """Which bits are set."""
        found: Flags = (self.bits[places >> np.uint64(3)] >> (places & np.uint64(7))) & 1 == 1
        return found

    def put(self, places: NDArray[np.uint64]) -> None:
        """Set the bits of members who were not in, as many as there are rows."""
        ones = np.left_shift(1, places & np.uint64(7)).astype(np.uint8)
        np.bitwise_or.at(self.bits, places >> np.uint64(3), ones)
        self.filled += len(places)


@dataclass(slots=True)
class GrowingFilter:
    """A set of members that takes a new one for a known one with probability `error` at most."""

    error: float
    _stages: list[_Stage] = field(default_factory=list)

    @property
    def filled(self) -> int:
        """How many members were added."""
        return sum(stage.filled for stage in self._stages)

    @property
    def size_bytes(self) -> int:
        """What its bits take."""
        return sum(len(stage.bits) for stage in self._stages)

    def add(self, high: Halves, low: Halves) -> Flags:
        """Add members one after the other; True for each that was not found and is in now."""
        added = np.zeros(len(high), np.bool_)
        start = 0
        while start < len(high):
            unknown = start + np.flatnonzero(~self._has(high[start:], low[start:]))
            if not len(unknown):
                break
            stage = self._open()
            room = stage.capacity - stage.filled
            start = int(unknown[room]) if len(unknown) > room else len(high)
            chosen = unknown[:room]
            places = stage.places(high[chosen], low[chosen])
            new = ~_covered(stage, places)
            stage.put(places[new])
            added[chosen[new]] = True
        return added

    def put(self, high: Halves, low: Halves) -> None:
        """Add members of whom it is known that `add` had added them, in their order."""
        start = 0
        while start < len(high):
            stage = self._open()
            end = min(len(high), start + stage.capacity - stage.filled)
            stage.put(stage.places(high[start:end], low[start:end]))
            start = end

    def to_bytes(self) -> bytes:
        """All of its bits; with `filled` and `error` they are the whole state."""
        return b"".join(stage.bits.tobytes() for stage in self._stages)

    @classmethod
    def from_bytes(cls, error: float, filled: int, bits: bytes) -> GrowingFilter:
        """The filter whose bits these are. Raises BadInputError if they are too few or too many.

        What is said of the bits is compared with them before any room is made for it.
        """
        if not (ERROR_MIN <= error < 1 and filled >= 0):
            raise BadInputError(f"no filter has {filled} members and an error of {error}")
        if (size := _size_of(error, filled)) != len(bits):
            raise BadInputError(f"a filter of {filled} members has {size} bytes, not {len(bits)}")
        found, rest = cls(error), bits
        while filled:
            stage = found._open()
            stage.filled = min(filled, stage.capacity)
            filled -= stage.filled
            own, rest = rest[: len(stage.bits)], rest[len(stage.bits) :]
            stage.bits[:] = np.frombuffer(own, np.uint8)
        return found

    def _has(self, high: Halves, low: Halves) -> Flags:
        found = np.zeros(len(high), np.bool_)
        for stage in self._stages:
            left = np.flatnonzero(~found)
            found[left] = stage.has(stage.places(high[left], low[left])).all(axis=1)
        return found

    def _open(self) -> _Stage:
        """The filter that has room, made if there is none."""
        if not self._stages or self._stages[-1].filled == self._stages[-1].capacity:
            self._stages.append(_Stage.number(len(self._stages), self.error))
        return self._stages[-1]


def _planned(number: int, error: float) -> tuple[int, int]:
    """How many members the filter of a number is for, and how many bits it has."""
    capacity = FIRST_CAPACITY * GROWTH**number
    share = error / 2 ** (number + 1)
    return capacity, math.ceil(capacity * -math.log(share) / math.log(2) ** 2)


def _size_of(error: float, filled: int) -> int:
    """The bytes of all filters for so many members. There are few, since each is larger."""
    number = size = 0
    while filled > 0:
        capacity, bits = _planned(number, error)
        filled -= capacity
        size += -(-bits // 8)
        number += 1
    return size


def _covered(stage: _Stage, places: NDArray[np.uint64]) -> Flags:
    """Which members have only bits that are set, or that members before them set.

    Whoever is the first to need a bit sets it: it cannot have been taken for known itself.
    """
    flat = places.ravel()
    _, first, which = np.unique(flat, return_index=True, return_inverse=True)
    owner = np.arange(flat.size) // stage.hashes
    set_before = stage.has(flat) | (owner[first][which.ravel()] < owner)
    covered: Flags = np.all(set_before.reshape(places.shape), axis=1)
    return covered
