"""How evenly strategies spread one viral counter, simulated: producers, batches, a log."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.sharding import Rows, chooser, counter_partitions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.sharding import Strategy

PARTITIONS = 64
SHARDS = (1, 4, 16, 64)
PRODUCERS = 4
MINUTES = 2
LINGER_MS = 50
MEMBERS = 100_000
SLOW = 4
"""The slow partition confirms so many times less than its even share of the rows."""
COUNTER_HASH = 3_142_822_631

SECOND_MS, MINUTE_MS = 1_000, 60_000
_LENGTH_MS = MINUTES * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows of one counter in the order they are packed; `ends` is where each batch ends."""

    at_ms: NDArray[np.int64]
    members: pa.StringArray
    ends: NDArray[np.int64]
    producers: NDArray[np.int64]
    """Whose each batch is."""

    @classmethod
    def made(cls, rows: int, seed: int) -> Stream:
        """Rows at any moment by any producer, of members by Zipf's law with exponent 1."""
        rng = np.random.default_rng(seed)
        names = pa.array([f"member-{number}" for number in range(MEMBERS)])
        members = names.take(rng.choice(MEMBERS, rows, p=_shares()))
        at_ms = np.sort(rng.integers(_LENGTH_MS, size=rows))
        batches = at_ms // LINGER_MS * PRODUCERS + rng.integers(PRODUCERS, size=rows)
        order = np.argsort(batches, kind="stable")
        distinct, counts = np.unique(batches, return_counts=True)
        ends = np.cumsum(counts)
        return cls(at_ms[order], members.take(order), ends, distinct % PRODUCERS)

    def batches(self, n: int) -> Iterator[tuple[int, slice, Rows]]:
        """Producer, place and rows of each batch, the counter having n shards."""
        begin = 0
        for producer, end in zip(self.producers.tolist(), self.ends.tolist(), strict=True):
            place, count = slice(begin, end), end - begin
            yield (
                producer,
                place,
                Rows(
                    hashes=np.full(count, COUNTER_HASH),
                    shards=np.full(count, n),
                    members=self.members[place],
                    at_ms=self.at_ms[place],
                ),
            )
            begin = end


class Log:
    """What producers have in flight. Until the next batches it confirms everything, but for a slow
    partition only what that bears; of several producers, from each the same part."""

    def __init__(self, bears: NDArray[np.float64]) -> None:
        """`bears` has the rows that each partition can confirm in one linger."""
        self._bears = bears
        self._waiting = np.zeros((PRODUCERS, PARTITIONS))
        self._now = 0

    def in_flight(self, producer: int) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = np.rint(self._waiting[producer]).astype(np.int64)
        return rows

    def take(self, producer: int, partitions: NDArray[np.int64]) -> None:
        self._waiting[producer] += np.bincount(partitions, minlength=PARTITIONS)

    def go_on_to(self, linger: int) -> None:
        """Confirm what the time since then is enough for."""
        bears = (linger - self._now) * self._bears
        waiting = self._waiting.sum(axis=0)
        self._waiting *= 1 - np.minimum(1, bears / np.maximum(waiting, 1))
        self._now = linger


@dataclass(frozen=True, slots=True)
class Spread:
    """One strategy with n shards. Even is 1.0: a share of 1/n."""

    strategy: str
    shards: int
    busiest: float
    busiest_in_a_second: float
    cells_a_minute: float
    cells_a_second: float
    to_the_slow: float | None


def measure(stream: Stream, strategy: Strategy, n: int) -> Spread:
    """Once with a log that keeps up, and once with one slow partition among the counter's."""
    bears = np.full(PARTITIONS, float(len(stream.at_ms)))
    quick = _places(stream, strategy, n, bears)
    to_the_slow = None
    if n > 1:
        slow = (COUNTER_HASH + n // 2) % PARTITIONS
        bears[slow] = len(stream.at_ms) / n * LINGER_MS / _LENGTH_MS / SLOW
        places = _places(stream, strategy, n, bears)
        to_the_slow = float(np.mean(places == slow) * n)
    seconds, minutes = (_by_time(stream, quick, length) for length in (SECOND_MS, MINUTE_MS))
    return Spread(
        strategy,
        n,
        float(seconds.sum(axis=0).max() / seconds.sum() * n),
        float((seconds.max(axis=1) / seconds.sum(axis=1)).mean() * n),
        float((minutes > 0).sum(axis=1).mean()),
        float((seconds > 0).sum(axis=1).mean()),
        to_the_slow,
    )


def heaviest_share() -> float:
    """What part of the rows the most active member makes."""
    return float(_shares()[0])


def _shares() -> NDArray[np.float64]:
    shares = 1 / np.arange(1, MEMBERS + 1)
    return np.asarray(shares / shares.sum())


def _places(
    stream: Stream, strategy: Strategy, n: int, bears: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The partition of each row."""
    log = Log(bears)
    choosers = [
        chooser(strategy, seed=one, in_flight=partial(log.in_flight, one))
        for one in range(PRODUCERS)
    ]
    places = np.empty(len(stream.at_ms), np.int64)
    for producer, place, rows in stream.batches(n):
        log.go_on_to(int(rows.at_ms[0]) // LINGER_MS)
        shards = choosers[producer].choose(rows, PARTITIONS)
        places[place] = counter_partitions_of(rows.hashes, shards, PARTITIONS)
        log.take(producer, places[place])
    return places


def _by_time(stream: Stream, places: NDArray[np.int64], length_ms: int) -> NDArray[np.int64]:
    """How many rows each partition got in each second or minute."""
    keys = stream.at_ms // length_ms * PARTITIONS + places
    size = _LENGTH_MS // length_ms * PARTITIONS
    return np.bincount(keys, minlength=size).reshape(-1, PARTITIONS)
