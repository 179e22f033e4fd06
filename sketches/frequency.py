"""How often each key, in memory that does not grow with keys: Count-Min.

See docs/sketches/frequency.md. Additions and removals have tables of their own. Counters are whole
numbers, so sums are exact and their order does not matter: the same rows, cut anywhere, make the
same counters. Adding is not idempotent, so a sketch that counts a log carries its own `through`.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from pipeline.errors import BadInputError
from sketches.answers import Estimate
from sketches.envelope import pack, seal, unpack, unseal
from sketches.hashing import hashes, mix
from sketches.through import NOTHING, TOTAL_MAX, fresh_rows, grown, sum_of, whole_deltas

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sketches.hashing import Column

_KIND, _VERSION = b"F", 1
_HEAD = struct.Struct("<BIqQQB")  # rows, width, through, both totals, has removals
_MERGED = -2  # stands for a `through` of None in the bytes
ROWS = 6
"""What `for_error` makes for the confidence it has by default: so many rows are in ClickHouse."""
ROWS_MAX = 32
WIDTH_MAX = 1 << 24
_ROWS_AT_ONCE = 1 << 13  # so that the columns in between stay within the processor's cache
MULTIPLIERS = mix(np.arange(ROWS_MAX, dtype=np.uint64)) | np.uint64(1)
"""By what the hash of a key is multiplied in each row."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """One estimate for each key of a column, as columns."""

    values: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]


def columns_of(hashed: NDArray[np.uint64], row: int, width: int) -> NDArray[np.int64]:
    """Where keys are counted in a row: a multiplication of the hash per row, then its top."""
    top = (hashed * MULTIPLIERS[row]) >> np.uint64(32)
    found: NDArray[np.int64] = ((top * np.uint64(width)) >> np.uint64(32)).astype(np.int64)
    return found


def buckets_of(keys: Column, width: int, rows: int = ROWS) -> NDArray[np.int64]:
    """The buckets of each key, one per row: row * width + column. Raises BadInputError."""
    hashed = hashes(keys)
    return np.stack([columns_of(hashed, row, width) + row * width for row in range(rows)], axis=1)


class Frequency:
    """Additions and removals of any number of keys. BadInputError leaves it as it was."""

    __slots__ = ("_added", "_removed", "added", "removed", "rows", "through", "width")

    def __init__(self, rows: int, width: int) -> None:
        """`rows` tables of `width` counters each; `for_error` chooses both."""
        if not (1 <= rows <= ROWS_MAX and 2 <= width <= WIDTH_MAX):
            raise BadInputError(
                f"{rows} rows of {width} counters: 1 to {ROWS_MAX} rows of 2 to {WIDTH_MAX} fit"
            )
        self.rows, self.width = rows, width
        self.added = 0
        self.removed = 0
        self.through: int | None = NOTHING
        self._added = np.zeros((rows, width), np.int64)
        self._removed: NDArray[np.int64] | None = None  # made by the first removal

    @classmethod
    def for_error(cls, error: float, confidence: float = 0.99) -> Self:
        """Bounds no wider than `error` of all additions plus `error` of all removals.

        For each key, they hold with at least this confidence.
        """
        if not (0 < error < 1 and 0 < confidence < 1):
            raise BadInputError("error and confidence are shares between 0 and 1")
        # Additions and removals each may fail, so each gets half of what confidence leaves.
        return cls(
            max(1, math.ceil(math.log(2 / (1 - confidence)))), max(2, math.ceil(math.e / error))
        )

    @property
    def error(self) -> float:
        """The share of all additions (or removals) by which one of them may be overestimated."""
        return math.e / self.width

    def add_many(
        self, keys: Column, deltas: ArrayLike | None = None, offsets: ArrayLike | None = None
    ) -> None:
        """Add a whole column of keys with their deltas (one by default; below zero removes).

        With `offsets`, rows at or below `through` are skipped, and `through` moves on.
        """
        hashed = hashes(keys)
        amounts = whole_deltas(deltas, len(hashed))
        through = self.through
        if offsets is not None:
            is_fresh, through = fresh_rows(through, offsets, len(hashed))
            hashed, amounts = hashed[is_fresh], amounts[is_fresh]
        is_removal = amounts < 0
        taken = -amounts[is_removal]
        added = grown(self.added, sum_of(amounts[~is_removal]), "frequency")
        removed = grown(self.removed, sum_of(taken), "frequency")
        if taken.size:
            if self._removed is None:
                self._removed = np.zeros_like(self._added)
            self._count(self._removed, hashed[is_removal], taken)
            hashed, amounts = hashed[~is_removal], amounts[~is_removal]
        self._count(self._added, hashed, amounts)
        self.added, self.removed, self.through = added, removed, through

    def estimate(self, key: str) -> Estimate:
        """Additions less removals of one key, with bounds: see `estimate_many`."""
        found = self.estimate_many([key])
        return Estimate(float(found.values[0]), float(found.lows[0]), float(found.highs[0]))

    def estimate_many(self, keys: Column) -> Estimates:
        """Additions less removals of each key.

        Each of the two is never underestimated; by how much it is overestimated is bounded with
        confidence. So where nothing was ever removed, the upper bound is certain, and the value is
        that bound.
        """
        hashed = hashes(keys)
        most_added = self._read(self._added, hashed)
        least_added = np.maximum(most_added - self._slack(self.added), 0)
        if self._removed is None:
            return Estimates(most_added, least_added, most_added)
        most_removed = self._read(self._removed, hashed)
        least_removed = np.maximum(most_removed - self._slack(self.removed), 0)
        return Estimates(
            most_added - most_removed, least_added - most_removed, most_added - least_removed
        )

    def counters(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Copies of both tables, additions and removals: what two sketches are compared by."""
        removed = np.zeros_like(self._added) if self._removed is None else self._removed.copy()
        return self._added.copy(), removed

    def merge(self, other: Frequency) -> None:
        """Add what another one counted; raises BadInputError for another size.

        Merging is for reading: the sum belongs to no single log, so its `through` is None.
        """
        if (other.rows, other.width) != (self.rows, self.width):
            raise BadInputError(
                f"frequency sketches of {self.rows} x {self.width} and of {other.rows} x "
                f"{other.width} counters cannot be merged: make both with the same error"
            )
        added = grown(self.added, other.added, "frequency")
        removed = grown(self.removed, other.removed, "frequency")
        self._added += other._added
        if other._removed is not None:
            if self._removed is None:
                self._removed = np.zeros_like(self._added)
            self._removed += other._removed
        self.added, self.removed, self.through = added, removed, None

    def to_bytes(self) -> bytes:
        """All there is to know, small while little is counted. Compare counters, not bytes."""
        through = _MERGED if self.through is None else self.through
        has_removals = self._removed is not None
        head = _HEAD.pack(self.rows, self.width, through, self.added, self.removed, has_removals)
        tables = self._added.astype("<i8").tobytes()
        if self._removed is not None:
            tables += self._removed.astype("<i8").tobytes()
        return seal(_KIND, _VERSION, head + pack(tables))

    @classmethod
    def from_bytes(cls, sealed: bytes) -> Self:
        """The same sketch again; raises BadInputError that says what is wrong with the bytes."""
        payload = unseal(_KIND, _VERSION, sealed, "frequency")
        if len(payload) < _HEAD.size:
            raise BadInputError("a damaged frequency sketch: it ends early")
        rows, width, through, added, removed, tables = _HEAD.unpack_from(payload)
        if not (1 <= rows <= ROWS_MAX and 2 <= width <= WIDTH_MAX and tables in {0, 1}):
            raise BadInputError(f"a damaged frequency sketch: it says {rows} rows of {width}")
        size = rows * width * 8
        content = unpack(payload[_HEAD.size :], size * (1 + tables), "frequency")
        made = cls(rows, width)
        made._added = np.frombuffer(content[:size], "<i8").astype(np.int64).reshape(rows, width)
        if tables:
            counters = np.frombuffer(content[size:], "<i8").astype(np.int64)
            made._removed = counters.reshape(rows, width)
        made.added, made.removed = added, removed
        made.through = None if through == _MERGED else through
        made._check_sums(through)
        return made

    def _slack(self, total: int) -> int:
        return min(math.floor(self.error * total), TOTAL_MAX)

    def _check_sums(self, through: int) -> None:
        """Every row of a table holds each amount once, so it adds up to the total."""
        for table, total in zip(self.counters(), (self.added, self.removed), strict=True):
            sums = {sum_of(row) for row in table}
            if total > TOTAL_MAX or int(table.min()) < 0 or sums != {total}:
                raise BadInputError("a damaged frequency sketch: its counters do not add up")
        if through < _MERGED:
            raise BadInputError(f"a damaged frequency sketch: it counted through {through}")

    def _columns(self, hashed: NDArray[np.uint64], row: int) -> NDArray[np.int64]:
        return columns_of(hashed, row, self.width)

    def _count(
        self, table: NDArray[np.int64], hashed: NDArray[np.uint64], amounts: NDArray[np.int64]
    ) -> None:
        for start in range(0, len(hashed), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            for row in range(self.rows):
                np.add.at(table[row], self._columns(hashed[part], row), amounts[part])

    def _read(self, table: NDArray[np.int64], hashed: NDArray[np.uint64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = table[0][self._columns(hashed, 0)]
        for row in range(1, self.rows):
            np.minimum(found, table[row][self._columns(hashed, row)], out=found)
        return found
