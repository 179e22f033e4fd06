"""Rows of a fetch by the cell they are for, with no Python statement per row. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.cell_keys import CellKey, key_texts
from schemas.events import DELTA_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.cells import BoolColumn, Int64Column

ROWS_MAX = 2**20
"""How many rows are grouped at once."""

assert ROWS_MAX**3 <= 2**63, "numbers of counter, region and window fit into one"
assert ROWS_MAX * DELTA_MAX < 2**63, "the sum of one group cannot overflow"


@dataclass(frozen=True, slots=True)
class CellGroups:
    """The cells that rows are for; row `r` is for the cell `keys[which[r]]`."""

    counters: pa.Array
    regions: pa.Array
    windows_ms: Int64Column
    keys: list[str]
    which: Int64Column

    @classmethod
    def of_rows(cls, rows: pa.Table) -> CellGroups:
        """Each cell of at most ROWS_MAX rows (counter, region, window_ms) once, in log order."""
        counters, regions, windows = (
            rows[name].combine_chunks().dictionary_encode() for name in CellKey._fields
        )
        in_region, in_window = max(len(regions.dictionary), 1), max(len(windows.dictionary), 1)
        codes = counters.indices.to_numpy().astype(np.int64)
        codes = (codes * in_region + regions.indices.to_numpy()) * in_window
        groups = pa.array(codes + windows.indices.to_numpy()).dictionary_encode()
        rest, window = np.divmod(groups.dictionary.to_numpy(), in_window)
        counter, region = np.divmod(rest, in_region)
        names = counters.dictionary.take(pa.array(counter))
        places = regions.dictionary.take(pa.array(region))
        windows_ms = windows.dictionary.to_numpy()[window]
        keys = key_texts(names, places, windows_ms).to_pylist()
        return cls(names, places, windows_ms, keys, groups.indices.to_numpy().astype(np.int64))

    @classmethod
    def of_keys(cls, keys: Sequence[CellKey]) -> CellGroups:
        """A group for every row, in the order of the keys, which may be the same."""
        return cls(
            pa.array([key.counter for key in keys], pa.string()),
            pa.array([key.region for key in keys], pa.string()),
            np.array([key.window_ms for key in keys], np.int64),
            [key.text() for key in keys],
            np.arange(len(keys)),
        )

    def take(self, groups: Int64Column) -> CellGroups:
        """Some of the cells, with a row for each."""
        chosen = pa.array(groups)
        return CellGroups(
            self.counters.take(chosen),
            self.regions.take(chosen),
            self.windows_ms[groups],
            list(map(self.keys.__getitem__, groups.tolist())),
            np.arange(len(groups)),
        )

    def where(self, chosen: BoolColumn) -> CellGroups:
        """Of the chosen rows alone."""
        groups, which = np.unique(self.which[chosen], return_inverse=True)
        return replace(self.take(groups), which=which)

    def counter_of(self) -> dict[str, str]:
        """The counter of every cell, by its key."""
        return dict(zip(self.keys, self.counters.to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class CellSums:
    """What rows, in log order, add to each of their cells."""

    p: Int64Column
    n: Int64Column
    duplicates: Int64Column | None
    first: Int64Column
    """The first and the last offset of the rows of a cell."""
    last: Int64Column

    @classmethod
    def of(cls, rows: pa.Table, groups: CellGroups) -> CellSums:
        """Of the rows of each group; duplicates are None if there is no such column."""

        def summed(name: str) -> Int64Column:
            sums = np.zeros(len(groups.keys), np.int64)
            np.add.at(sums, groups.which, rows[name].to_numpy())
            return sums

        offsets = rows["offset"].to_numpy()
        first, last = np.empty((2, len(groups.keys)), np.int64)
        last[groups.which] = offsets  # Of all that are assigned to one place, the last stays.
        first[groups.which[::-1]] = offsets[::-1]
        duplicates = summed("duplicates") if "duplicates" in rows.column_names else None
        return cls(summed("p"), summed("n"), duplicates, first, last)
