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
import pyarrow.compute as pc

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
ERRORS = (0.002, 0.001, 0.0005, 0.0002)
RULES_ERROR_MIN = 0.0005
"""The least that the rules of a family take; the one below shows what would be needed."""

CAPACITY = Sketch().keys


@dataclass(frozen=True, slots=True)
class HourTrial:
    """One hour: the recall of the heaviest among all that have a name, among the first by their
    weight in the summaries that name them, and among the first by buckets, as the pipeline ranks.
    """

    exponent: float
    error: float
    named: float
    weighed: float
    ranked: float


def measure_hour(
    stream: Stream,
    errors: Sequence[float] = ERRORS,
    capacity: int = CAPACITY,
    minutes: int = MINUTES,
) -> list[HourTrial]:
    """One stream as an hour, each counter on one shard, as it is unless it is split."""
    shards = np.array([crc32(name.encode()) % SHARDS for name in stream.number_of])
    names = _names(stream, shards[stream.numbers], capacity, minutes)
    named, weighed = recall(names, stream.truth), recall(names[:TOP], stream.truth)
    trials = []
    for error in errors:
        values = _estimates(stream, shards, error)
        ranked = recall(_greatest_first(stream, names, values)[:TOP], stream.truth)
        trials.append(HourTrial(stream.exponent, error, named, weighed, ranked))
    return trials


def _names(
    stream: Stream, shards: NDArray[np.int64], capacity: int, minutes: int
) -> NDArray[np.int64]:
    """The numbers of the counters that are known by name, the heaviest first, not too many."""
    weights = np.zeros(len(stream.truth), np.int64)
    for minute in np.array_split(np.arange(len(stream.numbers)), minutes):
        for shard in range(SHARDS):
            numbers = stream.numbers[minute][shards[minute] == shard]
            sketch = Heavy(capacity)
            sketch.add_many(stream.names.take(pa.array(numbers)))
            names, counts = sketch.heaviest(capacity)
            weights[stream.numbers_of(names)] += counts
    return _greatest_first(stream, np.flatnonzero(weights), weights)[:CANDIDATES_MAX]


def _greatest_first(
    stream: Stream, numbers: NDArray[np.int64], values: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Counters by their values, equal ones by name."""
    by_name = pc.sort_indices(stream.names.take(pa.array(numbers))).to_numpy()
    numbers = numbers[by_name]
    return numbers[np.argsort(-values[numbers], kind="stable")]


def _estimates(stream: Stream, shards: NDArray[np.int64], error: float) -> NDArray[np.int64]:
    """What the buckets of all shards together say of each counter."""
    united = Frequency.for_error(error)
    for shard in range(SHARDS):
        mine = shards == shard
        sketch = Frequency.for_error(error)
        sketch.add_many(stream.names.filter(pa.array(mine)), stream.truth[mine])
        united.merge(sketch)
    return united.estimate_many(stream.names).values
