"""Puts back rows that are added up, cells and buckets: into minutes, and into sums of them.

The leader does not roll up again what it has recorded as rolled up, so the sums are written here:
what finer rows add up to, and what the inserted rows add to that. Such a sum is never more than
the truth, however late it is written and whatever is rolled up or dropped meanwhile, and tables
keep the greatest. It would be hidden, however, by a greater sum whose finer rows are gone; such
rows are left out.
"""

from __future__ import annotations

from operator import add, ge, sub
from typing import TYPE_CHECKING, Protocol

from pipeline.letters.insert import GONE, refused_still
from pipeline.letters.sums import GRAINS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pipeline.letters.insert import RowTable
    from pipeline.letters.rows import (
        Grain,
        RowId,
        SetAsideBucket,
        SetAsideCell,
        SumKey,
        SummedRow,
        Values,
    )
    from pipeline.letters.sums import Sums


class SumsOfRows(Protocol):
    """Where rows are added up. The greatest of what is written is kept."""

    def read(self, rows: Sequence[SummedRow]) -> Sums: ...

    def write(self, grain: Grain, sums: Mapping[SumKey, Values]) -> None: ...


class SummedRows:
    """A PutsBack for the rows of one table."""

    def __init__(self, table: RowTable, sums: SumsOfRows) -> None:
        self._table = table
        self._sums = sums

    def put_back(self, rows: Sequence[SetAsideCell | SetAsideBucket]) -> dict[int, str]:
        """As the protocol says."""
        before = self._sums.read(rows)
        whole = [at for at, row in enumerate(rows) if is_whole(row, before)]
        left = dict.fromkeys(set(range(len(rows))) - set(whole), GONE)
        left |= refused_still(self._table, rows, whole)
        taken = [row for at, row in enumerate(rows) if at not in left]
        if taken:
            # Once more, so that of two who insert at once the later one has the other's rows, too.
            after = self._sums.read(taken)
            for grain, raised in raised_sums(taken, before).items():
                now = after.added[grain]
                sums = {key: _greatest(raised[key], now.get(key)) for key in raised}
                self._sums.write(grain, sums)
        return left


def is_whole(row: SummedRow, sums: Sums) -> bool:
    """Whether nothing is gone of what the row is added up with. Pure.

    Sums are rolled up from finer rows; one that is greater than what these add up to now tells
    that some of them were dropped.
    """
    nothing = _nothing(row)
    keys = {grain: row.sum_key(grain) for grain in GRAINS}
    return all(
        all(map(ge, sums.added[grain].get(key, nothing), sums.rolled[grain].get(key, nothing)))
        for grain, key in keys.items()
    )


def raised_sums(rows: Sequence[SummedRow], before: Sums) -> dict[Grain, dict[SumKey, Values]]:
    """The sums that rows belong in, with these rows in them; finer grains first. Pure.

    Several may be one row at different times, of which the greatest values hold.
    """
    greatest: dict[RowId, Values] = {}
    for row in rows:
        greatest[row.id] = _greatest(row.values, greatest.get(row.id))
    raised: dict[Grain, dict[SumKey, Values]] = {grain: {} for grain in reversed(GRAINS)}
    for one, row in {row.id: row for row in rows}.items():
        nothing = _nothing(row)
        known = before.minutes.get(one, nothing)
        more = _each(sub, _greatest(greatest[one], known), known)
        for grain, sums in raised.items():
            key = row.sum_key(grain)
            sums[key] = _each(add, sums.get(key, before.added[grain].get(key, nothing)), more)
    return raised


def _nothing(row: SummedRow) -> Values:
    return (0,) * len(row.values)


def _greatest(values: Values, others: Values | None) -> Values:
    return values if others is None else _each(max, values, others)


def _each(function: Callable[[int, int], int], values: Values, others: Values) -> Values:
    return tuple(map(function, values, others))
