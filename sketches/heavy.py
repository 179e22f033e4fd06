"""The heaviest keys, with bounds that are certain: Misra-Gries, in blocks of rows.

See docs/sketches/heavy.md. Rows wait in a block; a full block is added up and joined to the table,
and if there are now more keys than fit, the count of the first that does not fit is taken from
all. A block is full after a fixed number of rows since the sketch began, so the state depends on
the rows and their order alone, never on how they were cut into calls.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BadInputError
from sketches.envelope import seal, unseal
from sketches.hashing import texts
from sketches.summary import Summary, read_summary
from sketches.through import NOTHING, fresh_rows, grown, sum_of, whole_deltas

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sketches.hashing import Column

_KIND, _VERSION = b"H", 1
_HEAD = struct.Struct("<Iq")
_MERGED = -2  # stands for a `through` of None in the bytes
CAPACITY_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """A key, its additions less its removals, and the bounds the truth is certainly within."""

    key: str
    count: int
    low: int
    high: int


class Heavy:
    """The keys with the most additions. Nothing blocks; BadInputError leaves it as it was."""

    __slots__ = ("_added", "_removed", "capacity", "through")

    def __init__(self, capacity: int) -> None:
        """Keep up to `capacity` keys beside the block of rows that waits."""
        if not 1 <= capacity <= CAPACITY_MAX:
            raise BadInputError(f"{capacity} keys: 1 to {CAPACITY_MAX} can be kept")
        self.capacity = capacity
        self.through: int | None = NOTHING
        self._added = Summary(capacity)
        self._removed = Summary(capacity)

    @classmethod
    def for_error(cls, error: float) -> Self:
        """Bounds no wider than `error` of all additions plus `error` of all removals: certainly.

        A key with more than `error` of all additions is therefore never missing.
        """
        if not 1 / CAPACITY_MAX <= error < 1:
            raise BadInputError(f"an error of {error} is not between {1 / CAPACITY_MAX:.7f} and 1")
        return cls(math.ceil(1 / error))

    @property
    def added(self) -> int:
        """Everything added, over all keys: exact."""
        return self._added.total

    @property
    def removed(self) -> int:
        """Everything removed, over all keys: exact."""
        return self._removed.total

    @property
    def missed_max(self) -> int:
        """No key with more additions than this is missing; at most `added / (capacity + 1)`."""
        return self._added.lost

    def add_many(
        self, keys: Column, deltas: ArrayLike | None = None, offsets: ArrayLike | None = None
    ) -> None:
        """Add a whole column of keys with their deltas (one by default; below zero removes).

        With `offsets`, rows at or below `through` are skipped, and `through` moves on.
        """
        column = texts(keys).cast(pa.string())
        amounts = whole_deltas(deltas, len(column))
        through = self.through
        if offsets is not None:
            is_fresh, through = fresh_rows(through, offsets, len(column))
            column, amounts = column.filter(pa.array(is_fresh)), amounts[is_fresh]
        added = grown(self.added, sum_of(amounts[amounts > 0]), "heavy")
        removed = grown(self.removed, sum_of(-amounts[amounts < 0]), "heavy")
        if bool(np.all(amounts > 0)):
            self._added.add(column, amounts, added)
        else:
            for summary, signed, total in (
                (self._added, amounts, added),
                (self._removed, -amounts, removed),
            ):
                counts = signed > 0
                summary.add(column.filter(pa.array(counts)), signed[counts], total)
        self.through = through

    def top(self, k: int) -> list[HeavyKey]:
        """The `k` greatest counts, greatest first, equal ones by key."""
        known = self._added.known()
        least = known["amount"].to_numpy()
        least_taken, most_taken, taken = self._taken(known["key"])
        most = least + self._added.lost
        counts = most - taken
        order = np.argsort(-counts, kind="stable")
        if 0 <= k < len(order):
            # Ties at the end are settled by key, so all that equal the last count are looked at.
            order = order[: int(np.searchsorted(-counts[order], -counts[order[k - 1]], "right"))]
        found = zip(
            known["key"].take(order).to_pylist(),
            counts[order].tolist(),
            (least - most_taken)[order].tolist(),
            (most - least_taken)[order].tolist(),
            strict=True,
        )
        rows = [HeavyKey(*row) for row in found]
        return sorted(rows, key=lambda row: (-row.count, row.key))[: max(k, 0)]

    def heaviest(self, k: int) -> tuple[list[str], list[int]]:
        """The `k` keys with the most additions, equal ones by key, and what each has for certain.

        Cheaper than `top`, and all there is to choose candidates by.
        """
        known = self._added.known()
        ordered = known.sort_by([("amount", "descending"), ("key", "ascending")]).slice(0, k)
        return ordered["key"].to_pylist(), ordered["amount"].to_pylist()

    def over(self, share: float) -> list[HeavyKey]:
        """All keys whose count may be more than this share of all additions, greatest first.

        None that is above it is missing; raises BadInputError for a share below the error.
        """
        if share * (self.capacity + 1) < 1:
            raise BadInputError(
                f"keys over {share} of all may be missing: make the sketch with error {share}"
            )
        rows = self.top(self.capacity + 2 * self._added.block_rows)
        return [row for row in rows if row.high > share * self.added]

    def merge(self, other: Heavy) -> None:
        """Add what another one counted; raises BadInputError for another capacity.

        Merging is for reading: the sum belongs to no single log, so its `through` is None.
        """
        if other.capacity != self.capacity:
            raise BadInputError(
                f"heavy sketches of {self.capacity} and {other.capacity} keys cannot be merged: "
                "make both with the same error"
            )
        added = grown(self.added, other.added, "heavy")
        removed = grown(self.removed, other.removed, "heavy")
        self._added.merge(other._added, added)
        self._removed.merge(other._removed, removed)
        self.through = None

    def to_bytes(self) -> bytes:
        """All there is to know; equal for equal states."""
        head = _HEAD.pack(self.capacity, _MERGED if self.through is None else self.through)
        return seal(_KIND, _VERSION, head + self._added.to_payload() + self._removed.to_payload())

    @classmethod
    def from_bytes(cls, sealed: bytes) -> Self:
        """The same sketch again; raises BadInputError that says what is wrong with the bytes."""
        payload = unseal(_KIND, _VERSION, sealed, "heavy")
        if len(payload) < _HEAD.size:
            raise BadInputError("a damaged heavy sketch: it ends early")
        capacity, through = _HEAD.unpack_from(payload)
        made = cls(capacity)
        made._added, rest = read_summary(payload[_HEAD.size :], capacity)
        made._removed, rest = read_summary(rest, capacity)
        if rest or through < _MERGED:
            raise BadInputError("a damaged heavy sketch: it does not end where it should")
        made.through = None if through == _MERGED else through
        return made

    def _taken(self, keys: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """What was removed of each key: at least, at most, and estimated."""
        known = self._removed.known()
        places = pc.index_in(keys, known["key"].combine_chunks()).combine_chunks()
        rows = places.fill_null(-1).to_numpy(zero_copy_only=False)
        least = np.append(known["amount"].to_numpy(), 0)[rows]  # -1 is the zero at the end
        most = least + self._removed.lost
        return least, most, np.where(rows < 0, 0, most)
