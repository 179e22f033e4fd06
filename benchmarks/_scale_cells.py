"""How many cells a load touches: why ClickHouse's work does not grow as increments do. Pure.

A counter with r increments a second is touched within t seconds with probability 1 - exp(-r t).
Counters follow Zipf's law, so a few have most increments and most have few: twice the increments
touch less than twice the cells. A counter that is split has as many cells as shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.planning.load import COUNTERS_MAX
from pipeline.planning.needed import shards_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SINGLE = 10_000
"""So many of the heaviest counters are counted one by one, the others in groups of neighbours."""
_GROUPS = 4_000


@dataclass(frozen=True, slots=True)
class Load:
    """Increments a second on so many counters by Zipf's law, in regions with as much each.

    A counter is split above `shard_rate_max` increments a second, if a producer's report has room
    for it, into as many shards as the planner would take with any number of partitions.
    """

    rate: float
    counters: int
    exponent: float
    regions: int
    shard_rate_max: float

    def touched(self, seconds: float) -> float:
        """How many cells of one window are touched within so many seconds, as expected."""
        sizes, rates, shards = self._groups()
        places = shards * self.regions
        return float((sizes * places * -np.expm1(-rates / places * seconds)).sum())

    def _groups(self) -> tuple[Floats, Floats, Floats]:
        """Of each group how many counters it has, their rate, and their shards."""
        edges = np.arange(1, min(self.counters, _SINGLE) + 2, dtype=np.float64)
        if self.counters > _SINGLE:
            rest = np.geomspace(_SINGLE + 1, self.counters + 1, _GROUPS + 1)
            edges = np.concatenate((edges[:-1], rest))
        sizes = np.diff(edges)
        # Ranks are whole: the middle of a group from a to before b is that of a and b - 1.
        weights = ((edges[:-1] + edges[1:] - 1) / 2) ** -self.exponent
        rates = self.rate * weights / (sizes * weights).sum()
        shards = np.ones_like(rates)
        for place, rate in enumerate(rates[:COUNTERS_MAX].tolist()):
            shards[place] = shards_for(rate, self.shard_rate_max)
        return sizes, rates, shards
