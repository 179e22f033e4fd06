"""How far counts by key are off, and how many of the heaviest keys are found, by Zipf's law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sketches.frequency import Frequency
from sketches.heavy import Heavy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

EXPONENTS = (0.8, 1.0, 1.2, 1.5)
KEYS = 100_000
EVENTS = 1_000_000
ERRORS = (0.001, 0.002, 0.01)
CAPACITIES = (200, 1_000, 4_000)
TOP = 100
CONFIDENCE = 0.99  # that `Frequency.for_error` has by default
RECALL = 0.98
"""What is asked of a list of the 100 heaviest."""


class Stream:
    """Events of keys by Zipf's law: the n-th key has a share of n to the power of -exponent.

    Every seed has keys of its own, since hashes have no seed that could change.
    """

    def __init__(self, seed: int, exponent: float, events: int, keys: int = KEYS) -> None:
        self.seed, self.exponent = seed, exponent
        chance = np.random.default_rng([seed, round(exponent * 100), events])
        shares = np.cumsum(np.arange(1, keys + 1) ** -exponent)
        self.numbers = np.searchsorted(shares, chance.random(events) * shares[-1])
        self.truth = np.bincount(self.numbers, minlength=keys)

    @cached_property
    def names(self) -> pa.Array:
        """The name of each key by its number."""
        return pa.array([f"views:{self.seed}-{number}" for number in range(len(self.truth))])

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each key by its name."""
        return {name: number for number, name in enumerate(self.names.to_pylist())}

    def numbers_of(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of keys by their names."""
        return np.fromiter(map(self.number_of.__getitem__, names), np.int64, len(names))


def recall(found: NDArray[np.int64], truth: NDArray[np.int64], top: int = TOP) -> float:
    """How many of the `top` heaviest are among these keys, given by their numbers, as a share.

    A key with as many as the last of them is as good as that one.
    """
    last = np.sort(truth)[-top]
    return min(1.0, np.count_nonzero(truth[np.unique(found)] >= last) / top)


@dataclass(frozen=True, slots=True)
class FrequencyTrial:
    """All keys of one stream asked for, those never seen too. Shares are of all events."""

    exponent: float
    error: float
    promised: float
    below: int
    mean: float
    nearly_worst: float
    within: float


@dataclass(frozen=True, slots=True)
class HeavyTrial:
    """The heaviest keys of one stream. Shares are of all events; `broken` counts bounds."""

    exponent: float
    capacity: int
    recall: float
    broken: int
    widest: float


def measure_frequency(stream: Stream, error: float) -> FrequencyTrial:
    """Count a stream by Count-Min. What comes out does not depend on the order of the events."""
    sketch = Frequency.for_error(error)
    sketch.add_many(stream.names, stream.truth)
    found = sketch.estimate_many(stream.names)
    over = (found.values - stream.truth) / stream.truth.sum()
    return FrequencyTrial(
        exponent=stream.exponent,
        error=error,
        promised=sketch.error,
        below=int(np.count_nonzero(over < 0)),
        mean=float(over.mean()),
        nearly_worst=float(np.quantile(over, 0.99)),
        within=float(np.mean((found.lows <= stream.truth) & (stream.truth <= found.highs))),
    )


def measure_heavy(stream: Stream, capacity: int) -> HeavyTrial:
    """Find the heaviest keys of a stream, its events in their order.

    Also broken is a promise when a key is missing that has more than `missed_max`.
    """
    sketch = Heavy(capacity)
    sketch.add_many(stream.names.take(pa.array(stream.numbers)))
    rows = sketch.top(len(stream.truth))
    numbers = stream.numbers_of([row.key for row in rows])
    truth = stream.truth[numbers]
    lows, highs = np.array([row.low for row in rows]), np.array([row.high for row in rows])
    missing = np.delete(stream.truth, numbers)
    broken = np.count_nonzero((truth < lows) | (truth > highs))
    broken += np.count_nonzero(missing > sketch.missed_max)
    return HeavyTrial(
        exponent=stream.exponent,
        capacity=capacity,
        recall=recall(numbers[:TOP], stream.truth),
        broken=int(broken),
        widest=float((highs - lows).max() / len(stream.numbers)),
    )
