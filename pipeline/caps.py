"""How many cells a family may open in one slot of one shard, decided in log order. Pure.

A family flooded with new counters would fill the memory. So past its cap no new cell is opened for
it; such increments go to one cell per window that stands for the rest of the family. What is open
is known as of the shard's position: recovered cells that an earlier owner opened beyond it are open
only when the position comes to them, so that every owner decides alike.
"""

from __future__ import annotations

from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from pipeline.rules import CountingRules


def spill_counter(group: str) -> str:
    """The counter that stands for the rest of a family. No event can name it: its key is empty."""
    return f"{group}:"


class Opened:
    """How many cells each group of families has opened in a slot."""

    def __init__(self) -> None:
        self.ahead: set[str] = set()
        self.counts: Counter[str] = Counter()

    def recount(self, counters: Iterable[str], rules: CountingRules) -> None:
        """Begin anew with the counters of all open cells. Cells of the rest do not count."""
        grouped = ((name, rules.group_of(name)) for name in counters)
        self.counts = Counter(group for name, group in grouped if name != spill_counter(group))

    def admit(
        self, counters: pa.ChunkedArray, fresh: NDArray[np.bool_], rules: CountingRules
    ) -> bool:
        """Count the new cells, those where `fresh` is true; False, counting none, if too many."""
        if not rules.families:
            return self._admit_groups({"": int(np.count_nonzero(fresh))}, rules)
        names = compress(counters.to_pylist(), fresh.tolist()) if fresh.any() else ()
        return self._admit_groups(Counter(map(rules.group_of, names)), rules)

    def reach(
        self, counters: Mapping[str, str], known: Collection[str], rules: CountingRules
    ) -> bool:
        """As `admit`, where cells may be ahead: `counters` by cell key, `known` are in memory."""
        fresh = [key for key in counters if key in self.ahead or key not in known]
        if not self._admit_groups(Counter(rules.group_of(counters[key]) for key in fresh), rules):
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
