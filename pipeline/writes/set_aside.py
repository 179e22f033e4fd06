"""Cells that ClickHouse refuses: set aside as dead letters, so that all others go on. Pure.

A letter holds the cell as JSON with the table's own columns. Its values are absolute, so inserting
letters once the table takes them, in any order, gives the count: see pipeline/letters/insert.py.
Rows of other tables name theirs beside the columns: see pipeline/writes/summary_rows.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.dead_letters import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CELLS_MAX = 10_000
"""How many refused cells are remembered; the oldest are found again if they come again."""

FORGET_AFTER_WRITES = 60
"""How long refused cells are kept apart from others. Some of them may be taken by now."""

REASON_CHARACTERS_MAX = 500

_KEY = ("counter", "region", "window", "slot", "replica", "shard", "build")

Cell = tuple[Any, ...]


class SetAside:
    """Remembers which cells were refused, so that they are not searched for in every write."""

    def __init__(self) -> None:
        self._reasons: dict[Cell, str] = {}
        self._writes = 0

    def split(self, block: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The block's cells of which nothing is known, and those that were refused lately."""
        self._writes += 1
        if self._writes % FORGET_AFTER_WRITES == 0:
            self._reasons.clear()
        if not self._reasons:
            return block, block.slice(0, 0)
        counters = pa.array({cell[0] for cell in self._reasons}, pa.string())
        candidates = pc.indices_nonzero(pc.is_in(block["counter"], counters)).to_numpy()
        is_known = np.zeros(block.num_rows, bool)
        is_known[candidates] = [key in self._reasons for key in _keys(block.take(candidates))]
        return block.filter(pa.array(~is_known)), block.filter(pa.array(is_known))

    def add(self, block: pa.Table, refused: Mapping[int, str]) -> pa.Table:
        """Remember the cells at these places of a block, and return them."""
        cells = block.take(pa.array(refused, pa.int64()))
        self._reasons.update(zip(_keys(cells), refused.values(), strict=True))
        while len(self._reasons) > CELLS_MAX:
            del self._reasons[next(iter(self._reasons))]
        return cells

    def forget(self, cells: pa.Table) -> None:
        """These cells were taken."""
        for key in _keys(cells):
            self._reasons.pop(key, None)

    def letters(self, cells: pa.Table) -> list[DeadLetter]:
        """Refused cells as dead letters."""
        reasons = [self._reasons.get(key, "") for key in _keys(cells)]
        return cell_letters(cells.to_pylist(), reasons)


def cell_letters(rows: Sequence[Mapping[str, Any]], reasons: Sequence[str]) -> list[DeadLetter]:
    """Refused cells as dead letters, placed by shard and `through`.

    One record may be the last of several cells, so each has a row of its own; it is told by the
    cell's key, so that writing a letter again is the same letter. Records have rows from 0 on,
    cells from -1 down.
    """
    letters = []
    for row, reason in zip(rows, reasons, strict=True):
        key = json.dumps([_plain(row[name]) for name in _KEY]).encode()
        value = json.dumps(
            {name: _plain(field) for name, field in row.items()}, ensure_ascii=False
        ).encode()
        letters.append(
            DeadLetter(
                row["shard"],
                row["through"],
                -1 - crc32(key) % 2**31,
                int(row["slot"].timestamp() * 1000),
                f"ClickHouse refused this cell: {reason[:REASON_CHARACTERS_MAX]}",
                value,
                len(value),
            )
        )
    return letters


def _keys(cells: pa.Table) -> list[Cell]:
    return list(zip(*(cells[name].to_pylist() for name in _KEY), strict=True))


def _plain(value: Any) -> Any:
    """A value as ClickHouse reads it in JSON: times as it writes them itself, in UTC."""
    return value if isinstance(value, int | str) else value.strftime("%Y-%m-%d %H:%M:%S")
