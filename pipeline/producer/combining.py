"""Increments of one cell become one: those without member and id, additions and removals apart.

Pure. A cell sums what was added and what was taken away, so a sum for each counts the same. What
has a member or an id must arrive as it is: each member counts, each id is looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from schemas.events import DELTA_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64Column = NDArray[np.int64]
    BoolColumn = NDArray[np.bool_]

WINDOW_MS = 60_000
"""The shortest window: increments of one minute fall into the same windows of any grain."""

NEAR_MS = 60_000
"""What happened just now is far from being too late or too early, so a minute of it may become one.
Other increments combine only if they happened at the same millisecond: each is judged alone."""

LATENESS_MIN_MS = 600_000
"""Of families of which that is true, however long a minute's increments are on their way."""

_DENSE_MIN = 1 << 16


class Cells(NamedTuple):
    """Whose cell each row is for: numbers that stand for its counter, region and time."""

    counter: Int64Column
    region: Int64Column
    when: Int64Column
    """See `moments`."""


def moments(at_ms: Int64Column, now_ms: int, is_soon_late: BoolColumn | None = None) -> Int64Column:
    """Numbers that are equal where increments may combine: a minute, or a single moment.

    `is_soon_late` is true for those whose family refuses what is not LATENESS_MIN_MS late yet.
    """
    is_near = np.abs(at_ms - now_ms) <= NEAR_MS
    if is_soon_late is not None:
        is_near &= ~is_soon_late
    return np.where(is_near, at_ms // WINDOW_MS, -1 - at_ms)


class Combined(NamedTuple):
    """Fewer rows with the same sums."""

    source: Int64Column
    """For each combined row, one of the rows it was made of: all but delta and time hold."""
    delta: Int64Column
    at_ms: Int64Column
    """The newest of the rows it was made of: an older one must not make all of them too late."""
    row_of: Int64Column
    """For each row that was given, the combined row it went into."""


def combine(cells: Cells, delta: Int64Column, at_ms: Int64Column, plain: BoolColumn) -> Combined:
    """Sum the deltas of rows that are `plain` (no member, no id) over each cell, by sign.

    Rows of a sum beyond what one event may carry stay as they are. The order of rows that are not
    plain is kept; sums come after them.
    """
    rows = np.flatnonzero(plain)
    which, count = _groups(cells, delta, rows)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, which, delta[rows])
    fits = np.abs(sums) <= DELTA_MAX
    if not fits.all():
        plain = plain.copy()
        plain[rows[~fits[which]]] = False
        return combine(cells, delta, at_ms, plain)
    source_of = np.zeros(count, np.int64)
    source_of[which] = rows
    newest_ms = at_ms[source_of]
    np.maximum.at(newest_ms, which, at_ms[rows])
    kept = np.flatnonzero(~plain)
    row_of = np.empty(len(plain), np.int64)
    row_of[kept] = np.arange(len(kept))
    row_of[rows] = len(kept) + which
    return Combined(
        np.concatenate([kept, source_of]),
        np.concatenate([delta[kept], sums]),
        np.concatenate([at_ms[kept], newest_ms]),
        row_of,
    )


def _groups(cells: Cells, delta: Int64Column, rows: Int64Column) -> tuple[Int64Column, int]:
    """The number of each row's cell and sign, and how many there are."""
    if not len(rows):
        return rows, 0
    when = cells.when[rows]
    when -= when.min()
    counter, region = cells.counter[rows], cells.region[rows]
    moments, regions = int(when.max()) + 1, int(region.max()) + 1
    if moments > len(rows):
        found, when = np.unique(when, return_inverse=True)
        moments = len(found)
    key = ((counter * regions + region) * moments + when) * 2 + (delta[rows] < 0)
    span = (int(counter.max()) + 1) * regions * moments * 2
    if span > max(_DENSE_MIN, 4 * len(rows)):
        found, which = np.unique(key, return_inverse=True)
        return which, len(found)
    seen = np.zeros(span, np.bool_)
    seen[key] = True
    number = np.cumsum(seen) - 1
    return number[key], int(number[-1]) + 1
