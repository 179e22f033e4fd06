"""Synthetic increments from a seed, as columns. Pure: no clock, no I/O, no statement per row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.load.mix import Mix

    Int64Column = NDArray[np.int64]
    Int32Column = NDArray[np.int32]

LATE_MS_MIN = 2 * 60_000
LATE_MS_MAX = 20 * 3_600_000
"""Within the lateness a family has by default, which is a day, with time to be sent and counted."""


class Increments(NamedTuple):
    """Good increments as numbers: counters and regions by their place in the generator's lists."""

    counter: Int32Column
    region: Int32Column
    at_ms: Int64Column
    delta: Int64Column


class Made(NamedTuple):
    """Increments as columns for a producer, the same as numbers, and values that are no events."""

    columns: pa.Table
    increments: Increments
    bad: list[bytes]


class Generator:
    """Makes increments. The same seed makes the same ones, for the same calls. Not thread-safe."""

    def __init__(self, mix: Mix, seed: int | list[int], run: str) -> None:
        """`run` begins every id: ids of another run must not be taken for repeated."""
        self.counters = pa.array([mix.counter(n) for n in range(1, mix.counters + 1)], pa.string())
        self.regions = pa.array(list(mix.regions), pa.string())
        self._mix = mix
        self._run = run
        self._rng = np.random.default_rng(seed)
        self._heights = _zipf_heights(mix.counters, mix.skew) if mix.skew else None
        self._with_id = 0

    def make(self, count: int, now_ms: int) -> Made:
        """So many, of which some are bad; they happen now, but for those that are late."""
        bad = int(self._rng.binomial(count, self._mix.bad))
        good = count - bad
        increments = Increments(
            self._counters(good),
            self._rng.integers(len(self.regions), size=good, dtype=np.int32),
            self._times(good, now_ms),
            self._deltas(good),
        )
        return Made(self._columns(increments), increments, self._bad(bad))

    def _columns(self, increments: Increments) -> pa.Table:
        count = len(increments.counter)
        columns = {
            "counter": pa.DictionaryArray.from_arrays(increments.counter, self.counters),
            "delta": pa.array(increments.delta),
            "at": pa.array(increments.at_ms),
            "region": pa.DictionaryArray.from_arrays(increments.region, self.regions),
        }
        if self._mix.members:
            members = self._rng.integers(1, self._mix.members + 1, size=count)
            columns["member"] = _numbered("member", members)
        if self._mix.ids:
            columns["id"] = self._ids(count)
        return pa.table(columns)

    def _counters(self, count: int) -> Int32Column:
        if self._heights is None:
            return self._rng.integers(len(self.counters), size=count, dtype=np.int32)
        drawn = self._rng.random(count)
        return np.searchsorted(self._heights, drawn, side="right").astype(np.int32)

    def _times(self, count: int, now_ms: int) -> Int64Column:
        at_ms = np.full(count, now_ms, np.int64)
        late = self._chosen(count, self._mix.late)
        # As many between two minutes and four as between four hours and eight.
        powers = self._rng.random(len(late))
        ago_ms = LATE_MS_MIN * (LATE_MS_MAX / LATE_MS_MIN) ** powers
        at_ms[late] -= ago_ms.astype(np.int64)
        return at_ms

    def _deltas(self, count: int) -> Int64Column:
        delta = np.ones(count, np.int64)
        delta[self._chosen(count, self._mix.removals)] = -1
        return delta

    def _ids(self, count: int) -> pa.Array:
        """An id for each chosen row: never the same again in this run."""
        chosen = self._chosen(count, self._mix.ids)
        numbers = np.zeros(count, np.int64)
        numbers[chosen] = np.arange(self._with_id, self._with_id + len(chosen))
        self._with_id += len(chosen)
        is_chosen = np.zeros(count, np.bool_)
        is_chosen[chosen] = True
        ids = _numbered(self._run, numbers)
        return pc.if_else(pa.array(is_chosen), ids, pa.scalar(None, pa.string()))

    def _bad(self, count: int) -> list[bytes]:
        if not count:
            return []
        number = self._rng.integers(1, len(self.counters) + 1)
        kinds = bad_values(self._mix.counter(int(number)))
        return [kinds[kind] for kind in self._rng.integers(len(kinds), size=count).tolist()]

    def _chosen(self, count: int, share: float) -> NDArray[np.intp]:
        """Which rows are of a share."""
        if not share:
            return np.zeros(0, np.intp)
        return np.flatnonzero(self._rng.random(count) < share)


def bad_values(counter: str) -> list[bytes]:
    """Records that the pipeline refuses, each for another reason."""
    documents: list[object] = [
        {"delta": 1},
        {"counter": counter, "delta": 0},
        {"counter": counter, "at": "yesterday"},
        {"counter": counter, "at": 0},
        {"counter": counter, "region": "*"},
        [counter],
    ]
    return [b"not JSON", *(json.dumps(document).encode() for document in documents)]


def _zipf_heights(size: int, skew: float) -> NDArray[np.float64]:
    """Where a number from 0 to 1 must lie below to be of a counter: 1/n^skew, added up."""
    heights = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -skew)
    heights /= heights[-1]
    heights[-1] = 1.0
    return np.asarray(heights)


def _numbered(prefix: str, numbers: Int64Column) -> pa.StringArray:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "-")
