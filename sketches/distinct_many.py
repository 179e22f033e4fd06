"""Distinct members of very many things at once: the registers of all of them in one table.

A sketch per counter and window is mostly tiny, and an object for each would cost more than what is
in it. The registers are exactly those of a `Distinct` per row, which a test shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import BadInputError
from sketches.distinct import Distinct
from sketches.register_table import ROWS_MAX, RegisterTable, packed
from sketches.registers import placed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sketches.hashing import Column
    from sketches.register_table import Raised


class DistinctMany:
    """A sketch for every row number. Nothing blocks; BadInputError leaves all as they were."""

    __slots__ = ("_table", "precision")

    def __init__(self, precision: int) -> None:
        self.precision = Distinct(precision).precision
        self._table = RegisterTable()

    @classmethod
    def for_error(cls, error: float) -> DistinctMany:
        """As `Distinct.for_error`."""
        return cls(Distinct.for_error(error).precision)

    @property
    def nbytes(self) -> int:
        """The memory of all registers."""
        return self._table.nbytes

    def add_many(self, rows: ArrayLike, members: Column) -> Raised:
        """Add each member to the sketch of its row; tells which registers rose."""
        numbers = np.asarray(rows, np.int64)
        indexes, ranks = placed(members, self.precision)
        if numbers.shape != indexes.shape:
            raise BadInputError(f"{numbers.size} rows for {indexes.size} members do not fit")
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < ROWS_MAX:
            raise BadInputError(f"rows are numbered from 0 to {ROWS_MAX - 1}")
        return self._table.raise_to(packed(numbers, indexes, ranks))

    def sketch(self, row: int) -> Distinct:
        """The sketch of one row, empty if nothing was ever added to it. Looks through all rows."""
        found = self._table.entries()
        mine = found.rows == row
        return Distinct.from_registers(self.precision, found.indexes[mine], found.ranks[mine])
