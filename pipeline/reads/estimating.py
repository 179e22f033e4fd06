"""Counts from the buckets of Count-Min sketches that were added up. Pure.

What `Frequency` does with its own tables, for sums over any number of them: see
docs/sketches/frequency.md for what the bounds promise. numpy is imported by whoever has something
to estimate: most questions are about exact families, and it is a fifth of what a command imports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

Amounts = tuple[int, int]
"""Added and taken away."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """An estimate, and between which bounds the truth is."""

    value: int = 0
    low: int = 0
    high: int = 0

    @property
    def both(self) -> tuple[int, int]:
        """The lower and the upper bound."""
        return self.low, self.high

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.value + other.value, self.low + other.low, self.high + other.high)


def estimate(
    width: int,
    places: NDArray[np.int64],
    buckets: Mapping[int, Amounts],
    total: Amounts,
) -> list[Bounds]:
    """Of each key, one row of `places`: its buckets in each row of the sketch.

    Buckets that are not there hold nothing; `total` is what one row of the sketch adds up to.
    """
    import numpy as np  # noqa: PLC0415

    added, removed = (np.min(_looked_up(places, buckets, which), axis=1) for which in (0, 1))
    slack, removed_slack = (math.floor(math.e / width * amount) for amount in total)
    least, least_removed = np.maximum(added - slack, 0), np.maximum(removed - removed_slack, 0)
    found = zip(added - removed, least - removed, added - least_removed, strict=True)
    return [Bounds(*map(int, row)) for row in found]


def add_up(parts: Iterable[Mapping[int, Amounts]]) -> dict[int, Amounts]:
    """Buckets of several windows, bucket by bucket."""
    sums: dict[int, Amounts] = {}
    for part in parts:
        for bucket, (p, n) in part.items():
            old_p, old_n = sums.get(bucket, (0, 0))
            sums[bucket] = old_p + p, old_n + n
    return sums


def _looked_up(
    places: NDArray[np.int64], buckets: Mapping[int, Amounts], which: int
) -> NDArray[Any]:
    import numpy as np  # noqa: PLC0415

    # Whole numbers of Python: sums over shards may be beyond 64 bits.
    wanted, inverse = np.unique(places, return_inverse=True)
    values = np.array([buckets.get(place, (0, 0))[which] for place in wanted.tolist()], object)
    found: NDArray[Any] = values[inverse.reshape(places.shape)]
    return found
