"""The load of a skew simulation: counters by Zipf's law, and one that went viral. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.sharding import counter_partitions_of, hashes_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Shares = NDArray[np.float64]

VIRAL = "likes:viral"


@dataclass(frozen=True, slots=True)
class Counters:
    """Every counter with its share of all rows, the heaviest first. Shares add up to 1."""

    names: Sequence[str]
    hashes: NDArray[np.int64]
    shares: Shares

    @classmethod
    def made(cls, count: int, exponent: float, viral_share: float = 0.0) -> Counters:
        """`count` counters by Zipf's law; with a viral share, one more that has this much."""
        ranks = np.arange(1, count + 1, dtype=np.float64)
        weights = ranks**-exponent
        shares = (1 - viral_share) * weights / weights.sum()
        names = [f"likes:post-{rank}" for rank in range(1, count + 1)]
        if viral_share:
            shares, names = np.append(shares, viral_share), [*names, VIRAL]
        order = np.argsort(-shares, kind="stable")
        names = [names[place] for place in order.tolist()]
        return cls(names, hashes_of(pa.array(names)), shares[order])

    def by_partition(self, partitions: int) -> Shares:
        """The share of each partition while every counter is whole."""
        places = counter_partitions_of(self.hashes, np.zeros_like(self.hashes), partitions)
        return np.bincount(places, self.shares, partitions).astype(np.float64)


def spread(counters: Counters, whole: Shares, shards: Mapping[str, int]) -> Shares:
    """The share of each partition when some counters have n shards, each with as much of it.

    `whole` is `counters.by_partition`. None of `shards` may be more than there are partitions.
    """
    loads = whole.copy()
    # Only heavy counters are split, so only the first are looked through.
    wanted = dict(shards)
    for place, name in enumerate(counters.names):
        if not wanted:
            break
        if (n := wanted.pop(name, None)) is None:
            continue
        places = counter_partitions_of(np.full(n, counters.hashes[place]), np.arange(n), len(loads))
        loads[places[0]] -= counters.shares[place]
        loads[places] += counters.shares[place] / n
    return loads
