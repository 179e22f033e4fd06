"""How far estimates of distinct members are off, from one member to ten million."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sketches.distinct import Distinct
from sketches.precision import standard_error

if TYPE_CHECKING:
    from collections.abc import Sequence

ERRORS = (0.05, 0.02, 0.01)
"""As `for_error` takes them: 9, 12 and 14 bits of precision."""

SIZES = tuple(10**power for power in range(8))
CONFIDENCE = 0.95
_CHUNK = 100_000  # members that are in memory at a time


@dataclass(frozen=True, slots=True)
class DistinctTrial:
    """One estimate, as a share above or below the truth, and whether its bounds hold the truth."""

    precision: int
    members: int
    off: float
    holds: bool


@dataclass(frozen=True, slots=True)
class DistinctRow:
    """The estimates of all seeds for one precision and number of members, as shares."""

    precision: int
    members: int
    promised: float
    mean: float
    root_mean_square: float
    worst: float
    held: int
    seeds: int

    @property
    def is_kept(self) -> bool:
        """False where chance alone would do so in less than one of a thousand runs, about."""
        most = self.promised * (1 + 3.1 / math.sqrt(2 * self.seeds))
        return self.root_mean_square <= most and self.held >= held_at_least(self.seeds)


def measure_distinct(
    seed: int, sizes: Sequence[int] = SIZES, errors: Sequence[float] = ERRORS
) -> list[DistinctTrial]:
    """One seed's members, looked at whenever there are as many as one of the sizes, ascending.

    They are hashed once, for the greatest precision; the others are folded from it, exactly.
    """
    precisions = [Distinct.for_error(error).precision for error in errors]
    sketch = Distinct(max(precisions))
    trials = []
    done = 0
    for size in sizes:
        while done < size:
            end = min(size, done + _CHUNK)
            sketch.add_many(members_of(seed, done, end))
            done = end
        for precision in precisions:
            found = sketch.folded(precision).estimate()
            holds = found.low <= size <= found.high
            trials.append(DistinctTrial(precision, size, found.value / size - 1, holds))
    return trials


def members_of(seed: int, start: int, end: int) -> pa.Array:
    """Different texts; those of different seeds differ, too."""
    numbers = pa.array(np.arange(start, end)).cast(pa.string())
    return pc.binary_join_element_wise(f"user-{seed}", numbers, "-")


def distinct_rows(trials: Sequence[DistinctTrial]) -> list[DistinctRow]:
    """One row per precision and number of members, in this order."""
    return [
        _row(precision, members, [one for one in trials if _of(one) == (precision, members)])
        for precision, members in sorted(set(map(_of, trials)))
    ]


def held_at_least(seeds: int) -> int:
    """Fewer bounds that hold come by chance less than once in a thousand times."""
    chance = 0.0
    for held in range(seeds + 1):
        chance += math.comb(seeds, held) * CONFIDENCE**held * (1 - CONFIDENCE) ** (seeds - held)
        if chance >= 0.001:
            return held
    return seeds


def _of(trial: DistinctTrial) -> tuple[int, int]:
    return trial.precision, trial.members


def _row(precision: int, members: int, trials: Sequence[DistinctTrial]) -> DistinctRow:
    off = np.array([one.off for one in trials])
    return DistinctRow(
        precision=precision,
        members=members,
        promised=standard_error(precision),
        mean=float(off.mean()),
        root_mean_square=float(np.sqrt(np.mean(off**2))),
        worst=float(np.abs(off).max()),
        held=sum(one.holds for one in trials),
        seeds=len(trials),
    )
