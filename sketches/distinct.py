"""How many different members: HyperLogLog registers, sparse while few, dense when many.

See docs/sketches/distinct.md. The state is a function of the set of members alone: order, repeats
and batch boundaries do not matter, and equal registers have equal bytes.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pipeline.errors import BadInputError
from sketches.answers import Estimate, around
from sketches.envelope import seal, unseal
from sketches.precision import PRECISION_MAX, PRECISION_MIN, precision_for, standard_error
from sketches.registers import estimated, folded, placed, rank_max, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sketches.hashing import Column
    from sketches.registers import Indexes, Ranks

_KIND, _VERSION = b"D", 1
_HEAD = struct.Struct("<BB")
_SPARSE, _DENSE = 0, 1
_SPARSE_BYTES = 4  # of a register that is kept as a number: index * 256 + rank


class Distinct:
    """The distinct members of one thing. Nothing blocks; BadInputError leaves it as it was."""

    __slots__ = ("_dense", "_sparse", "precision")

    def __init__(self, precision: int) -> None:
        """`precision` is the binary logarithm of the number of registers, 4 to 16."""
        if not PRECISION_MIN <= precision <= PRECISION_MAX:
            raise BadInputError(
                f"precision {precision} is not between {PRECISION_MIN} and {PRECISION_MAX}"
            )
        self.precision = precision
        self._sparse = b""  # sorted; bytes, since an array's own head would outweigh a few members
        self._dense: Ranks | None = None

    @classmethod
    def for_error(cls, error: float) -> Self:
        """The smallest sketch whose relative standard error is at most `error` (0.0041 to 0.26)."""
        return cls(precision_for(error))

    @classmethod
    def from_registers(cls, precision: int, indexes: ArrayLike, ranks: ArrayLike) -> Self:
        """From the keys and values of a map of registers, in any order, as ClickHouse keeps it."""
        made = cls(precision)
        given, values = np.asarray(indexes, np.int64), np.asarray(ranks, np.int64)
        if given.shape != values.shape or given.ndim != 1:
            raise BadInputError(f"{given.size} registers with {values.size} ranks do not fit")
        if given.size and (
            given.min() < 0
            or given.max() >= 1 << precision
            or values.min() < 1
            or values.max() > rank_max(precision)
        ):
            raise BadInputError(
                f"registers of precision {precision} are numbered from 0 to {(1 << precision) - 1} "
                f"with ranks from 1 to {rank_max(precision)}: these are of another precision"
            )
        made._raise_to(given.astype(np.uint16), values.astype(np.uint8))
        return made

    def add_many(self, members: Column) -> None:
        """Add a whole column of texts; raises BadInputError for what is no Unicode text."""
        self._raise_to(*placed(members, self.precision))

    def registers(self) -> tuple[Indexes, Ranks]:
        """The registers above zero: their numbers, ascending, and their ranks."""
        if self._dense is None:
            packed = np.frombuffer(self._sparse, "<u4")
            return (packed >> 8).astype(np.uint16), packed.astype(np.uint8)
        indexes = np.flatnonzero(self._dense)
        return indexes.astype(np.uint16), self._dense[indexes]

    def changed_since(self, before: Distinct) -> tuple[Indexes, Ranks]:
        """The registers that are greater than in an earlier copy: what a flush has to write."""
        self._check_fits(before)
        indexes, ranks = self.registers()
        is_greater = ranks > before._all()[indexes]
        return indexes[is_greater], ranks[is_greater]

    def copy(self) -> Self:
        """As it is now; adding to one does not change the other."""
        made = type(self)(self.precision)
        made._sparse = self._sparse
        made._dense = None if self._dense is None else self._dense.copy()
        return made

    def merge(self, other: Distinct) -> None:
        """Become the union; raises BadInputError for another precision."""
        self._check_fits(other)
        self._raise_to(*other.registers())

    def estimate(self) -> Estimate:
        """The number of members, within its bounds with a confidence of 95 %.

        The lower bound is never below the registers that were hit, which is certain.
        """
        ranks = self.registers()[1]
        value = estimated(ranks, self.precision)
        if math.isinf(value):
            return Estimate(value, float(len(ranks)), value)
        return around(value, standard_error(self.precision), at_least=len(ranks))

    def folded(self, precision: int) -> Self:
        """As the same members would have made it at a lower precision, exactly.

        Sketches of two precisions are united after the finer one is folded. Raises BadInputError
        for a greater precision.
        """
        made = type(self)(precision)
        made._raise_to(*folded(*self.registers(), self.precision, precision))
        return made

    def uniques(self) -> tuple[int, int, int]:
        """The estimate and its bounds as whole numbers, as the views of ClickHouse tell them.

        Rounded, and never below the lower bound.
        """
        found = self.estimate()
        low = whole(found.low)
        return max(whole(found.value), low), low, whole(found.high)

    def to_bytes(self) -> bytes:
        """All there is to know; equal for equal registers."""
        if self._dense is None:
            return seal(_KIND, _VERSION, _HEAD.pack(self.precision, _SPARSE) + self._sparse)
        return seal(_KIND, _VERSION, _HEAD.pack(self.precision, _DENSE) + self._dense.tobytes())

    @classmethod
    def from_bytes(cls, sealed: bytes) -> Self:
        """The same sketch again; raises BadInputError that says what is wrong with the bytes."""
        payload = unseal(_KIND, _VERSION, sealed, "distinct")
        if len(payload) < _HEAD.size:
            raise BadInputError("a damaged distinct sketch: it ends early")
        precision, form = _HEAD.unpack_from(payload)
        made, content = cls(precision), payload[_HEAD.size :]
        if form == _SPARSE and len(content) % _SPARSE_BYTES == 0:
            packed = np.frombuffer(content, "<u4")
            made = cls.from_registers(precision, packed >> 8, packed & 0xFF)
        elif form == _DENSE and len(content) == 1 << precision:
            dense = np.frombuffer(content, np.uint8)
            hit = np.flatnonzero(dense)
            made = cls.from_registers(precision, hit, dense[hit])
        if made.to_bytes() != sealed:
            raise BadInputError("a damaged distinct sketch: its registers are not as it says")
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distinct) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes, so it is no key of a dict

    def __sizeof__(self) -> int:
        held: Any = self._sparse if self._dense is None else self._dense
        return object.__sizeof__(self) + int(held.__sizeof__())

    def _all(self) -> Ranks:
        """Every register, zeros included."""
        if self._dense is not None:
            return self._dense
        found = np.zeros(1 << self.precision, np.uint8)
        indexes, ranks = self.registers()
        found[indexes] = ranks
        return found

    def _raise_to(self, indexes: Indexes, ranks: Ranks) -> None:
        """Raise registers to at least these ranks."""
        if self._dense is None:
            self._sparse = self._united(indexes, ranks).tobytes()
            if len(self._sparse) > 1 << self.precision:
                self._dense, self._sparse = self._all(), b""
        else:
            np.maximum.at(self._dense, indexes, ranks)

    def _united(self, indexes: Indexes, ranks: Ranks) -> NDArray[np.uint32]:
        added = indexes.astype("<u4") << np.uint32(8) | ranks
        packed = np.sort(np.concatenate((np.frombuffer(self._sparse, "<u4"), added)))
        # Of the entries of one register, the last of the sorted has the greatest rank.
        is_last = np.append(packed[1:] >> 8 != packed[:-1] >> 8, True)[: len(packed)]
        united: NDArray[np.uint32] = packed[is_last]
        return united

    def _check_fits(self, other: Distinct) -> None:
        if other.precision != self.precision:
            raise BadInputError(
                f"sketches of precision {self.precision} and {other.precision} cannot be united: "
                "make both with the same error"
            )
