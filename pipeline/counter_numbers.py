"""Numbers for counters in regions: their texts are looked up once per fetch, not again. Pure.

A number is for one **era** of 45 days of windows, so that it makes, with a window of the era, a
number that is still small. Of most counters there is only one era.
"""

from __future__ import annotations

from itertools import count, repeat
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.cell_keys import WINDOW_MS, key_texts

if TYPE_CHECKING:
    from pipeline.cell_groups import CellGroups
    from pipeline.cells import Int64Column
    from pipeline.rules import CountingRules

NUMBERS_MAX = 50_000
"""How many a shard keeps; then it begins anew."""

ERA_WINDOWS = 45 * 24 * 60
ERA_MS = ERA_WINDOWS * WINDOW_MS

_NAMES = pa.schema([("counter", pa.string()), ("region", pa.string()), ("era_ms", pa.int64())])


class CounterNumbers:
    """Numbers from 0 on, for as long as one version of the rules holds."""

    def __init__(self, rules: CountingRules) -> None:
        self.rules = rules
        self.families = np.zeros(0, np.int64)
        """By number: 0 for the default, or which of the families in the rules, from 1 on."""
        self._family_numbers = {name: number for number, name in enumerate(rules.families, 1)}
        self._numbers: dict[str, int] = {}
        self._names = _NAMES.empty_table()

    @property
    def is_full(self) -> bool:
        """Whether to begin anew with others."""
        return len(self._numbers) > NUMBERS_MAX

    def of(self, cells: CellGroups) -> Int64Column:
        """The number of each cell's counter, region and era; new ones get the next."""
        eras_ms = cells.windows_ms - cells.windows_ms % ERA_MS
        encoded = key_texts(cells.counters, cells.regions, eras_ms).dictionary_encode()
        keys, which = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        numbers = np.fromiter(map(self._numbers.get, keys, repeat(-1)), np.int64, len(keys))
        new = np.flatnonzero(numbers < 0)
        if new.size:
            numbers[new] = self._add([keys[place] for place in new.tolist()])
            a_cell = np.empty(len(keys), np.int64)
            a_cell[which] = np.arange(len(which))
            names = pa.table([cells.counters, cells.regions, eras_ms], schema=_NAMES)
            self._name(names.take(pa.array(a_cell[new])))
        found: Int64Column = numbers[which]
        return found

    def names(self, numbers: Int64Column) -> pa.Table:
        """Counter, region and era_ms of each number."""
        self._names = self._names.combine_chunks()
        return self._names.take(pa.array(numbers, pa.int64())).combine_chunks()

    def _add(self, keys: list[str]) -> Int64Column:
        """Give the next numbers to keys that have none."""
        first = len(self._numbers)
        self._numbers.update(zip(keys, count(first), strict=False))
        return np.arange(first, first + len(keys))

    def _name(self, names: pa.Table) -> None:
        """The next numbers are for these."""
        self._names = pa.concat_tables([self._names, names])
        self.families = np.append(self.families, self._families(names["counter"]))

    def _families(self, counters: pa.ChunkedArray) -> Int64Column:
        if not self._family_numbers:
            return np.zeros(len(counters), np.int64)
        families = (name.partition(":")[0] for name in counters.to_pylist())
        numbers = map(self._family_numbers.get, families, repeat(0))
        return np.fromiter(numbers, np.int64, len(counters))
