"""What the cells of a slot are called, in columns, as ClickHouse is given it. Pure.

A cell's key is one text, because an index of texts is small and quick. To take texts apart again
for each write would cost as much as counting does, so what rows said of new cells is kept as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.cell_keys import CellColumns, parse_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.cell_groups import CellGroups
    from pipeline.cells import BoolColumn, Int64Column


class CellNames:
    """Names of the first so many cells of a slot; those of the others are in their keys."""

    def __init__(self) -> None:
        self._parts: list[CellColumns] = []
        self._named = 0

    def add(self, keys: Sequence[str], groups: CellGroups, fresh: BoolColumn) -> None:
        """Name the new cells of `groups`; `keys` are those of all cells before them."""
        if self._named < len(keys):
            self._add(parse_keys(keys[self._named :]))
        if fresh.all():
            self._add(CellColumns(groups.counters, groups.regions, groups.windows_ms))
        else:
            chosen = pa.array(fresh)
            self._add(
                CellColumns(
                    groups.counters.filter(chosen),
                    groups.regions.filter(chosen),
                    groups.windows_ms[fresh],
                )
            )

    def of(self, rows: Int64Column, keys: Sequence[str]) -> CellColumns:
        """The names of some rows, ascending, with their keys."""
        named = int(np.searchsorted(rows, self._named))
        parts = [self._taken(rows[:named])] if named else []
        if named < len(rows) or not parts:
            parts.append(parse_keys(keys[named:]))
        return joined(parts)

    def _add(self, names: CellColumns) -> None:
        self._parts.append(names)
        self._named += len(names.windows_ms)

    def _taken(self, rows: Int64Column) -> CellColumns:
        self._parts = [joined(self._parts)]
        (names,) = self._parts
        if len(rows) == self._named:
            return names
        chosen = pa.array(rows)
        return CellColumns(
            names.counters.take(chosen), names.regions.take(chosen), names.windows_ms[rows]
        )


def joined(parts: Sequence[CellColumns]) -> CellColumns:
    """Names one after the other; of none there are none."""
    if len(parts) == 1:
        return parts[0]
    return CellColumns(
        pa.concat_arrays([part.counters for part in parts] or [pa.array([], pa.string())]),
        pa.concat_arrays([part.regions for part in parts] or [pa.array([], pa.string())]),
        np.concatenate([part.windows_ms for part in parts] or [np.zeros(0, np.int64)]),
    )
