"""Rows that were counted into cells, on their way to what is kept beside them. Pure.

Cells count; sketches summarise what cells cannot hold: who the members were, and counters of which
there are too many. Both see the same rows, in log order, and only those that were counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.cell_groups import CellGroups
from pipeline.cells import WINDOW_MS, CellKey
from pipeline.slots import spill_counter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.cells import BoolColumn, Int64Column
    from pipeline.rules import CountingRules
    from pipeline.shard import Row

_COLUMNS = {
    "counter": pa.string(),
    "region": pa.string(),
    "at": pa.int64(),
    "p": pa.int64(),
    "n": pa.int64(),
    "offset": pa.int64(),
    "member": pa.string(),
}
"""Of the rows: counter, region and member as the row says, its delta, and its place."""


@dataclass(frozen=True, slots=True)
class CellMembers:
    """Who was counted in which cell: `texts[i]` in the cell `cells.keys[which[i]]`."""

    cells: CellGroups
    which: Int64Column
    texts: pa.Array


@dataclass(frozen=True, slots=True)
class Summarised:
    """Counted rows of one slot that one version of the rules holds for, and their cells.

    The cell of a row that spilled is the one for the rest of its family.
    """

    slot_ms: int
    rules: CountingRules
    rows: pa.Table
    spilled: BoolColumn
    cells: CellGroups

    def members(self) -> CellMembers | None:
        """The members of the additions that have one; None if none has."""
        member = self.rows["member"]
        if member.null_count == len(member):
            return None
        added = pc.and_(pc.is_valid(member), pc.greater(self.rows["p"], 0))
        texts = member.filter(added).combine_chunks()
        return CellMembers(self.cells, self.cells.which[added.to_numpy()], texts)

    def rest(self) -> pa.Table:
        """The rows that spilled, under their own counters."""
        return self.rows.filter(pa.array(self.spilled))


@dataclass(slots=True)
class CountedRows:
    """Gathers rows that were counted one by one."""

    _rows: list[tuple[tuple[int, CountingRules], tuple[object, ...], CellKey, bool]] = field(
        default_factory=list
    )

    def add(
        self, slot_ms: int, rules: CountingRules, row: Row, region: str, *, spilled: bool
    ) -> None:
        """A row that was counted, in log order; rows that nobody summarises are passed over."""
        if spilled or row.member is not None:
            p, n = max(row.delta, 0), max(-row.delta, 0)
            values = (row.counter, region, row.at_ms, p, n, row.offset, row.member)
            counter = spill_counter(rules.group_of(row.counter)) if spilled else row.counter
            window_ms = row.at_ms - row.at_ms % WINDOW_MS
            cell = CellKey(counter, "" if spilled else region, window_ms)
            self._rows.append(((slot_ms, rules), values, cell, spilled))

    def parts(self) -> Iterator[Summarised]:
        """The rows by slot and rules, in log order."""
        for (slot_ms, rules), rows in groupby(self._rows, key=itemgetter(0)):
            _, values, cells, spilled = zip(*rows, strict=True)
            columns = zip(*values, strict=True)
            table = pa.table(
                {
                    name: pa.array(column, of)
                    for (name, of), column in zip(_COLUMNS.items(), columns, strict=True)
                }
            )
            groups = CellGroups.of_keys(cells)
            yield Summarised(slot_ms, rules, table, np.array(spilled, np.bool_), groups)
