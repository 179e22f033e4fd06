"""What it costs to choose shards: nanoseconds of the processor per row."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.sharding import STRATEGIES, Rows, chooser

PARTITIONS = 64
SHARDS = 16
BATCHES = ((100, 1), (10_000, 1), (10_000, 1_000))
"""Rows at a time, and of how many counters."""
_ROWS_A_ROUND = 100_000


@dataclass(frozen=True, slots=True)
class Cost:
    """The median of the rounds."""

    strategy: str
    rows: int
    counters: int
    ns_per_row: float


def measure(rounds: int) -> list[Cost]:
    """All strategies take turns, so that a busy moment of the machine hits all of them alike."""
    found = []
    for rows, counters in BATCHES:
        batch = _batch(rows, counters)
        choosers = {name: chooser(name, seed=1, in_flight=_nothing) for name in STRATEGIES}
        times_ns: dict[str, list[float]] = {name: [] for name in STRATEGIES}
        for _ in range(rounds + 1):
            for name, one in choosers.items():
                began_ns = time.process_time_ns()
                for _ in range(_ROWS_A_ROUND // rows):
                    one.choose(batch, PARTITIONS)
                times_ns[name].append((time.process_time_ns() - began_ns) / _ROWS_A_ROUND)
        found += [
            Cost(name, rows, counters, statistics.median(taken[1:]))
            for name, taken in times_ns.items()
        ]
    return found


def _nothing() -> np.typing.NDArray[np.int64]:
    return np.zeros(PARTITIONS, np.int64)


def _batch(rows: int, counters: int) -> Rows:
    rng = np.random.default_rng(rows)
    return Rows(
        hashes=rng.integers(2**32, size=counters)[rng.integers(counters, size=rows)],
        shards=np.full(rows, SHARDS),
        members=pa.array([f"member-{number}" for number in range(rows)]),
        at_ms=rng.integers(2**40, size=rows),
    )
