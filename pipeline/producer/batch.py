"""Increments that wait to be packed, in the order they were given. Not thread-safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.producer.few import Row
from pipeline.producer.receipts import Outcome
from schemas.frames import FRAME_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS = len(FRAME_SCHEMA)


class Batch:
    """Single increments and tables of many, and what will become of them.

    `fields` has the single ones that came last, one value after the other, each in the order of
    FRAME_SCHEMA: a list of rows would cost several times as much. `first` is the number of the
    first of them in the batch.
    """

    __slots__ = ("_tables", "fields", "first", "outcome")

    def __init__(self) -> None:
        self.fields: list[object] = []
        self.first = 0
        self.outcome = Outcome()
        self._tables: list[pa.Table] = []

    @property
    def rows(self) -> int:
        """How many increments wait."""
        return self.first + len(self.fields) // FIELDS

    def add(self, table: pa.Table) -> None:
        """Many increments, after those that came before."""
        self._close_fields()
        self._tables.append(table)
        self.first += table.num_rows

    def tables(self, rows_max: int) -> Iterator[pa.Table]:
        """All increments in their order, as tables of at most so many rows."""
        self._close_fields()
        everything = pa.concat_tables(self._tables)
        for start in range(0, everything.num_rows, rows_max):
            yield everything.slice(start, rows_max).combine_chunks()

    def few(self, rows_max: int) -> list[Row] | None:
        """All increments in their order if they are single ones, and no more than so many."""
        if self.first or len(self.fields) > rows_max * FIELDS:
            return None
        # As the caller fills it: one increment's fields after the other's.
        return list(map(Row._make, zip(*[iter(self.fields)] * FIELDS, strict=True)))

    def forget(self) -> None:
        """Only what becomes of them is wanted any more."""
        self._close_fields()
        self._tables = []

    def _close_fields(self) -> None:
        if self.fields:
            self._tables.append(_as_table(self.fields))
            self.first += self._tables[-1].num_rows
            self.fields = []


def _as_table(fields: list[object]) -> pa.Table:
    columns = (
        _as_array(fields[number::FIELDS], field.type) for number, field in enumerate(FRAME_SCHEMA)
    )
    return pa.table(list(columns), schema=FRAME_SCHEMA)


def _as_array(values: list[object], kind: pa.DataType) -> pa.Array:
    """Mostly a column has one value from its start to its end, which is seen at a glance."""
    if values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], kind), len(values))
    return pa.array(values, kind)
