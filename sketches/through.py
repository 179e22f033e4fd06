"""Counting a log once: a sketch that adds is not idempotent, so it knows how far it has counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import BadInputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

NOTHING = -1  # the `through` of a sketch that has counted nothing of a log yet
TOTAL_MAX = 2**63 - 1


def fresh_rows(through: int | None, offsets: ArrayLike, rows: int) -> tuple[NDArray[np.bool_], int]:
    """Which rows are past `through`, and what it is after them.

    All rows of an offset come in one call, in log order. Raises BadInputError for a merged sketch
    (`through` is None), which belongs to no single log, and for offsets that do not fit.
    """
    places = np.asarray(offsets, np.int64)
    if through is None:
        raise BadInputError("a merged sketch belongs to no single log: count into one of its parts")
    if places.shape != (rows,) or (rows and (places[0] < 0 or bool(np.any(np.diff(places) < 0)))):
        raise BadInputError("offsets must be one per row, not below zero, in the log's order")
    return places > through, max(through, int(places[-1])) if rows else through


def whole_deltas(deltas: ArrayLike | None, rows: int) -> NDArray[np.int64]:
    """One delta per row, ones by default; raises BadInputError for what is not a whole number."""
    if deltas is None:
        return np.ones(rows, np.int64)
    given = np.asarray(deltas)
    if given.shape != (rows,):
        raise BadInputError(f"{given.size} deltas for {rows} rows: one is needed for each")
    if rows and (given.dtype.kind not in "iu" or int(given.max()) > TOTAL_MAX):
        raise BadInputError("deltas must be whole numbers of at most 63 bits")
    counted = given.astype(np.int64)
    if rows and int(counted.min()) < -TOTAL_MAX:
        raise BadInputError("deltas must be whole numbers of at most 63 bits")
    return counted


def sum_of(amounts: NDArray[np.int64]) -> int:
    """The exact sum of amounts that are not below zero, whatever its size."""
    if not amounts.size or int(amounts.max()) <= TOTAL_MAX // amounts.size:
        return int(amounts.sum())
    return sum(amounts.tolist())


def grown(total: int, amount: int, name: str) -> int:
    """The new total; raises BadInputError where 63 bits do not hold it."""
    if total + amount > TOTAL_MAX:
        raise BadInputError(f"the total of this {name} sketch would pass 2^63: begin a new one")
    return total + amount
