"""Huge numbers of tiny counters, a byte or two each: Morris counters.

See docs/sketches/morris.md. A counter holds a level; levels are further and further apart, and an
addition that ends between two of them goes to the upper one with the chance that keeps the mean
right. The chance of each row comes from its place in the log alone, so whoever counts the same
rows, cut anywhere, gets the same levels.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pipeline.errors import BadInputError
from sketches.answers import Estimate, around
from sketches.envelope import pack, seal, unpack, unseal
from sketches.hashing import mix
from sketches.through import NOTHING, fresh_rows, whole_deltas

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_KIND, _VERSION = b"M", 1
_HEAD = struct.Struct("<dQq")  # error, counters, through
_MERGED = -2  # stands for a `through` of None in the bytes
ERROR_MIN, ERROR_MAX = 0.1, 0.3
BYTE_ERROR_MIN = 0.22  # from here on, 256 levels reach past 2^36
COUNTERS_MAX = 1 << 32
_ROWS_AT_ONCE = 1 << 13  # so that a round works within the processor's cache


class Morris:
    """Numbered counters that only grow. Nothing blocks; BadInputError leaves them as they were."""

    __slots__ = ("_levels", "_values", "error", "through")

    def __init__(self, error: float, counters: int) -> None:
        """Counters 0 to `counters` - 1, all at zero; see `for_error`."""
        if not ERROR_MIN <= error <= ERROR_MAX:
            raise BadInputError(
                f"an error of {error} is not between {ERROR_MIN} and {ERROR_MAX}: below, exact "
                "counters of four bytes are hardly larger"
            )
        if not 0 <= counters <= COUNTERS_MAX:
            raise BadInputError(f"{counters} counters: 0 to {COUNTERS_MAX} fit")
        self.error = error
        self.through: int | None = NOTHING
        small = error >= BYTE_ERROR_MIN
        self._levels: NDArray[Any] = np.zeros(counters, np.uint8 if small else np.uint16)
        self._values = _values(error, 1 << 8 if small else 1 << 16)

    @classmethod
    def for_error(cls, error: float, counters: int) -> Self:
        """Counters whose relative standard error is at most `error`: a byte each from 0.22 on."""
        return cls(error, counters)

    def __len__(self) -> int:
        return len(self._levels)

    def grow(self, counters: int) -> None:
        """Have this many counters from now on, the new ones at zero; never fewer."""
        if not len(self) <= counters <= COUNTERS_MAX:
            raise BadInputError(f"{len(self)} counters cannot become {counters}")
        self._levels = np.concatenate(
            (self._levels, np.zeros(counters - len(self), self._levels.dtype))
        )

    def add_many(
        self,
        counters: ArrayLike,
        deltas: ArrayLike | None = None,
        *,
        partition: int,
        offsets: ArrayLike,
        rows: ArrayLike | None = None,
    ) -> None:
        """Add to counters by their numbers, in log order; deltas are one by default.

        A row's place is (partition, offset, row within the offset: 0 by default). Rows at or below
        `through` are skipped. Raises BadInputError for a removal or a number that is not there.
        """
        numbers = np.asarray(counters, np.int64)
        amounts = whole_deltas(deltas, len(numbers))
        is_fresh, through = fresh_rows(self.through, offsets, len(numbers))
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self):
            raise BadInputError(f"there are counters 0 to {len(self) - 1} only: call grow first")
        if numbers.size and int(amounts.min()) < 0:
            raise BadInputError("these counters only grow: keep another sketch for removals")
        within = np.zeros(len(numbers), np.uint64) if rows is None else np.asarray(rows, np.uint64)
        chances = _chances(partition, np.asarray(offsets, np.uint64), within)
        numbers, chances = numbers[is_fresh], chances[is_fresh]
        adding = amounts[is_fresh].astype(np.float64)
        for start in range(0, len(numbers), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            self._add(numbers[part], adding[part], chances[part])
        self.through = through

    def estimate(self, counter: int) -> Estimate:
        """The value of one counter, within its bounds with a confidence of 95 %."""
        if not 0 <= counter < len(self):
            raise BadInputError(f"there are counters 0 to {len(self) - 1} only")
        level = int(self._levels[counter])
        value = float(self._values[level])
        if level == len(self._values) - 1:
            return Estimate(value, float(math.floor(value / (1 + 2 * self.error))), math.inf)
        return around(value, self.error, at_least=min(level, 1))

    def estimates(self) -> NDArray[np.float64]:
        """The values of all counters."""
        found: NDArray[np.float64] = self._values[self._levels]
        return found

    def levels(self) -> NDArray[np.int64]:
        """A copy of the state itself: what two sketches are compared by."""
        return self._levels.astype(np.int64)

    def merge(self, other: Morris, *, seed: int) -> None:
        """Add the values of another one, counter by counter; the same seed gives the same levels.

        Merging is for reading: the sum belongs to no single log, so its `through` is None.
        """
        if other.error != self.error or len(other) != len(self):
            raise BadInputError(
                f"{len(self)} counters with error {self.error} and {len(other)} with "
                f"{other.error} cannot be merged"
            )
        numbers = np.arange(len(self), dtype=np.uint64)
        chances = _chances(seed, numbers, np.zeros_like(numbers))
        raised = self._raised(self._values[self._levels] + other.estimates(), chances)
        self._levels = raised.astype(self._levels.dtype)
        self.through = None

    def to_bytes(self) -> bytes:
        """All there is to know, small while most counters are at zero."""
        through = _MERGED if self.through is None else self.through
        size = self._levels.dtype.itemsize
        content = pack(self._levels.astype(f"<u{size}").tobytes())
        return seal(_KIND, _VERSION, _HEAD.pack(self.error, len(self), through) + content)

    @classmethod
    def from_bytes(cls, sealed: bytes) -> Self:
        """The same counters again; raises BadInputError that says what is wrong with the bytes."""
        payload = unseal(_KIND, _VERSION, sealed, "morris")
        if len(payload) < _HEAD.size:
            raise BadInputError("a damaged morris sketch: it ends early")
        error, counters, through = _HEAD.unpack_from(payload)
        made = cls(error, 0)
        size = made._levels.dtype.itemsize
        if through < _MERGED or counters > COUNTERS_MAX:
            raise BadInputError("a damaged morris sketch: its head makes no sense")
        content = unpack(payload[_HEAD.size :], counters * size, "morris")
        made._levels = np.frombuffer(content, f"<u{size}").astype(made._levels.dtype)
        if made._levels.max(initial=0) >= len(made._values):
            raise BadInputError("a damaged morris sketch: a counter is higher than any can be")
        made.through = None if through == _MERGED else through
        return made

    def _add(
        self,
        numbers: NDArray[np.int64],
        amounts: NDArray[np.float64],
        chances: NDArray[np.float64],
    ) -> None:
        """Row after row for each counter, all counters at once.

        A row that leaves its counter's level as it is has no effect, so in every round each counter
        jumps to its first row that raises it. Rounds end when no row raises anything; there are as
        many as the most raised counter climbs levels, which grows with the logarithm of its count.
        """
        order = np.argsort(numbers, kind="stable")
        numbers, amounts, chances = numbers[order], amounts[order], chances[order]
        while numbers.size:
            before = self._levels[numbers]
            after = self._raised(self._values[before] + amounts, chances)
            raising = np.flatnonzero(after > before)
            changed, first = np.unique(numbers[raising], return_index=True)
            at = raising[first]
            self._levels[changed] = after[at].astype(self._levels.dtype)
            # What is left are the rows after the raising one, of counters that were raised.
            place = np.searchsorted(changed, numbers)
            place[place == len(changed)] = 0
            stays = np.zeros(len(numbers), np.bool_)
            if changed.size:
                is_after = np.arange(len(numbers)) > at[place]
                stays = (changed[place] == numbers) & is_after
            numbers, amounts, chances = numbers[stays], amounts[stays], chances[stays]

    def _raised(
        self, targets: NDArray[np.float64], chances: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """The level for each value: the one below it, or the one above by chance."""
        last = len(self._values) - 1
        below = np.minimum(np.searchsorted(self._values, targets, "right") - 1, last - 1)
        gap = self._values[below + 1] - self._values[below]
        found: NDArray[np.int64] = below + (chances * gap < targets - self._values[below])
        return found


def _values(error: float, levels: int) -> NDArray[np.float64]:
    """What each level stands for: level + 1 is (1 + 2 error^2) times level, plus one.

    Made by multiplying and adding alone, so it is the same on every machine. Levels end where a
    double no longer tells a number from the next.
    """
    growth = 1 + 2 * error * error
    values = [0.0]
    while len(values) < levels and values[-1] < 2.0**53:
        values.append(values[-1] * growth + 1)
    return np.array(values)


def _chances(
    seed: int, offsets: NDArray[np.uint64], rows: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """A number from 0 up to 1 for each place, always the same for the same place."""
    start = mix(np.array([seed], np.uint64))
    return (mix(mix(start ^ offsets) ^ rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53
