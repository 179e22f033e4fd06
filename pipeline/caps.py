"""How many cells a family may open in one slot of one shard, decided in log order. Pure.

A family flooded with new counters would fill the memory. So past its cap no new cell is opened for
it; such increments go to one cell per window that stands for the rest of the family. What is open
is known as of the shard's position: recovered cells that an earlier owner opened beyond it are open
only when the position comes to them, so that every owner decides alike.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.slots import spill_counter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from pipeline.rules import CountingRules


def is_sketched(counters: pa.ChunkedArray, rules: CountingRules) -> NDArray[np.bool_]:
    """Which counters have no cells of their own, because their family is sketched."""
    if not rules.has_sketched:
        return np.zeros(len(counters), np.bool_)
    encoded = counters.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    of_name = np.array([rules.of(name).sketched for name in names], np.bool_)
    sketched: NDArray[np.bool_] = of_name[encoded.indices.to_numpy()]
    return sketched


def spill(rows: pa.Table, spilled: NDArray[np.bool_], rules: CountingRules) -> pa.Table:
    """The rows with counter and region of those that spilled replaced by the family's rest."""
    if not spilled.any():
        return rows
    encoded = rows["counter"].combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    rest = pa.array([spill_counter(rules.group_of(name)) for name in names], pa.string())
    where = pa.array(spilled)
    counter = pc.if_else(where, rest.take(encoded.indices), encoded.dictionary_decode())
    region = pc.if_else(where, "", rows["region"].cast(pa.string()))
    for name, column in (("counter", counter), ("region", region)):
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


class Opened:
    """How many cells each group of families has opened in a slot."""

    def __init__(self) -> None:
        self.ahead: set[str] = set()
        self.counts: Counter[str] = Counter()

    def recount(self, counters: pa.Array, rules: CountingRules) -> None:
        """Begin anew with the counters of all open cells. Cells of the rest do not count."""
        self.counts = _opening(counters, rules)

    def admit(
        self, counters: pa.ChunkedArray, fresh: NDArray[np.bool_], rules: CountingRules
    ) -> bool:
        """Count the new cells, those where `fresh` is true; False, counting none, if too many."""
        if not fresh.any():
            return True
        names = counters if fresh.all() else counters.filter(pa.array(fresh))
        return self._admit_groups(_opening(names, rules), rules)

    def beyond(self, counters: Iterable[str], rules: CountingRules) -> list[bool]:
        """Which of the new cells, in log order, are too many."""
        counts, found = self.counts.copy(), []
        for group in map(rules.group_of, counters):
            counts[group] += 1
            found.append(counts[group] > rules.cells_max(group))
        return found

    def reach(
        self, counters: Mapping[str, str], known: Collection[str], rules: CountingRules
    ) -> bool:
        """As `admit`, where cells may be ahead: `counters` by cell key, `known` are in memory."""
        fresh = [key for key in counters if key in self.ahead or key not in known]
        names = pa.array([counters[key] for key in fresh], pa.string())
        if not self._admit_groups(_opening(names, rules), rules):
            return False
        self.ahead.difference_update(fresh)
        return True

    def admit_one(self, key: str, counter: str, rules: CountingRules) -> bool:
        """Whether one new cell may be opened; counts it if so."""
        group = rules.group_of(counter)
        if not self._admit_groups({group: 1}, rules):
            return False
        self.ahead.discard(key)
        return True

    def _admit_groups(self, opening: Mapping[str, int], rules: CountingRules) -> bool:
        if any(
            self.counts[group] + count > rules.cells_max(group) for group, count in opening.items()
        ):
            return False
        self.counts.update(opening)
        return True


def _opening(counters: pa.Array, rules: CountingRules) -> Counter[str]:
    """How many cells each group would open. Cells of the rest do not count.

    Families are few, so each is looked up once.
    """
    families = pc.list_element(pc.split_pattern(counters, ":", max_splits=1), 0).dictionary_encode()
    counts = np.bincount(families.indices.to_numpy(), minlength=len(families.dictionary))
    opening: Counter[str] = Counter()
    for family, count in zip(families.dictionary.to_pylist(), counts.tolist(), strict=True):
        # Only families that rules name have a rest of their own, and "" has that of all others.
        opening[family if family in rules.families else ""] += count
    for group in list(opening):
        opening[group] -= pc.sum(pc.equal(counters, spill_counter(group)), min_count=0).as_py()
    return opening
