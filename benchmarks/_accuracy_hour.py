"""The 100 heaviest counters of an hour, found as the pipeline finds them in a sketched family.

Each of 8 shards knows the names of the heaviest of each minute; all buckets of the hour are added
up; the names are ranked by what the buckets say (pipeline/reads/sketched_ranking.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa

from benchmarks._accuracy_keys import TOP, recall
from pipeline.reads.heavy_sql import CANDIDATES_MAX
from schemas.rules import Sketch
from sketches.frequency import Frequency
from sketches.heavy import Heavy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from benchmarks._accuracy_keys import Stream

EVENTS = 5_000_000
SHARDS = 8
MINUTES = 60
ERRORS = (0.002, 0.001, 0.0005)
CAPACITY = Sketch().keys


@dataclass(frozen=True, slots=True)
class HourTrial:
    """One hour: how many of the heaviest have a name, and how many are ranked among the first."""

    exponent: float
    is_spread: bool
    error: float
    named: float
    ranked: float


def measure_hour(
    stream: Stream, errors: Sequence[float] = ERRORS, capacity: int = CAPACITY
) -> list[HourTrial]:
    """One stream as an hour, each counter on one shard, and each spread over all shards.

    Buckets add up to the same in both.
    """
    owner = np.array([crc32(name.encode()) % SHARDS for name in stream.number_of])
    chance = np.random.default_rng(stream.seed)
    spread = chance.integers(0, SHARDS, len(stream.numbers))
    estimates = {error: _estimates(stream, owner, error) for error in errors}
    trials = []
    for is_spread, shards in ((False, owner[stream.numbers]), (True, spread)):
        names = _names(stream, shards, capacity)
        named = recall(names, stream.truth)
        for error, values in estimates.items():
            first = names[np.argsort(-values[names], kind="stable")[:TOP]]
            found = recall(first, stream.truth)
            trials.append(HourTrial(stream.exponent, is_spread, error, named, found))
    return trials


def _names(stream: Stream, shards: NDArray[np.int64], capacity: int) -> NDArray[np.int64]:
    """The numbers of the counters that are known by name, by weight if they are too many."""
    weights = np.zeros(len(stream.truth), np.int64)
    minutes = np.array_split(np.arange(len(stream.numbers)), MINUTES)
    for minute in minutes:
        for shard in range(SHARDS):
            numbers = stream.numbers[minute][shards[minute] == shard]
            sketch = Heavy(capacity)
            sketch.add_many(stream.names.take(pa.array(numbers)))
            names, counts = sketch.heaviest(capacity)
            weights[stream.numbers_of(names)] += counts
    heaviest = np.argsort(-weights, kind="stable")[:CANDIDATES_MAX]
    return heaviest[weights[heaviest] > 0]


def _estimates(stream: Stream, owner: NDArray[np.int64], error: float) -> NDArray[np.int64]:
    """What the buckets of all shards together say of each counter."""
    united = Frequency.for_error(error)
    for shard in range(SHARDS):
        mine = owner == shard
        sketch = Frequency.for_error(error)
        sketch.add_many(stream.names.filter(pa.array(mine)), stream.truth[mine])
        united.merge(sketch)
    return united.estimate_many(stream.names).values
