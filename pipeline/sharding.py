"""Which partition an increment goes to. Pure; the hash is stable for ever and pinned by tests.

Any event may land on any partition without changing a sum, so this is about load alone, except for
events with an id: all occurrences of an id must meet in one partition to be counted once. So must
all events of a member, in families that count each member once.

The hash is CRC-32, which is what librdkafka's default partitioner computes of a message key. So a
foreign producer on librdkafka that sets the key to `counter`, or to `counter NUL id` where there is
an id, or to `counter NUL member` in such families, puts events where Tally would.

A counter with n shards has n neighbouring partitions; a strategy chooses one of them for each row.
docs/sharding.md says which strategy to take when, and has what was measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.errors import BadInputError

Integers = NDArray[np.int64]
InFlight = Callable[[], Integers]
"""Rows not yet confirmed, by partition: those packed and waiting, and those sent."""

Strategy = Literal["random", "member", "round-robin", "time", "least-loaded"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

TIME_BUCKET_MS = 1_000
_TURNS = 4_096
"""How many running numbers a round-robin has; counters share one only if they collide in it."""
_SHARDS_BITS = 31
"""Kafka numbers partitions with 31 bits, so beside a hash of 32 a shard number fits an int64."""


def counter_partition(counter: str, shard: int, partitions: int) -> int:
    """The partition of shard number `shard` of a counter."""
    return (crc32(counter.encode()) + shard) % partitions


def id_partition(counter: str, id_: str, first_partitions: int) -> int:
    """The partition of an event with an id; `first_partitions` is how many the topic began with."""
    return crc32(f"{counter}\0{id_}".encode()) % first_partitions


def hashes_of(texts: pa.StringArray) -> Integers:
    """The hash of each text; none may be null. Of texts that repeat, hash the distinct ones."""
    return np.fromiter(map(crc32, texts.cast(pa.binary()).to_pylist()), np.int64, len(texts))


def counter_partitions_of(hashes: Integers, shards: Integers, partitions: int) -> Integers:
    """`counter_partition` of each row, by the hash of its counter and its shard's number."""
    return (hashes + shards) % partitions


def id_partitions_of(
    counters: pa.StringArray, ids: pa.StringArray, first_partitions: int
) -> Integers:
    """`id_partition` of each row; every row has an id."""
    return hashes_of(pc.binary_join_element_wise(counters, ids, "\0")) % first_partitions


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows without id whose counters have more than one shard, as columns of equal length."""

    hashes: Integers
    """Of the counters."""
    shards: Integers
    """How many each row's counter has: 1 or more, never more than there are partitions."""
    members: pa.StringArray
    """Null where there is none."""
    at_ms: Integers


class Chooser(Protocol):
    """Chooses shards. Keeps state from call to call, so it belongs to one thread."""

    def choose(self, rows: Rows, partitions: int, /) -> Integers:
        """For each row the number of a shard of its counter, from 0. Does not block."""


def chooser(
    strategy: Strategy, *, seed: int | None = None, in_flight: InFlight | None = None
) -> Chooser:
    """The chooser of a strategy; the same seed chooses the same. "least-loaded" needs `in_flight`,
    which it asks once per call. Raises BadInputError for a strategy that is not known."""
    rng = np.random.default_rng(seed)
    match strategy:
        case "random":
            return _Random(rng)
        case "member":
            return _ByMember(rng)
        case "round-robin":
            return _RoundRobin(rng)
        case "time":
            return _ByTime()
        case "least-loaded":
            if in_flight is None:
                raise ValueError("the strategy least-loaded needs in_flight")
            return _LeastLoaded(rng, in_flight)
    raise BadInputError(f"no strategy is called {strategy!r}: use {', '.join(STRATEGIES)}")


class _Random:
    """Even in the long run, whatever the rows are; needs to know nothing."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def choose(self, rows: Rows, _partitions: int, /) -> Integers:
        return self._rng.integers(rows.shards)


class _ByMember:
    """A member's rows of a counter are in one shard, in order; those without member at random.

    As even as members are: one who makes half of the rows makes one shard half of the load. That
    counters have the same hash function does no harm: a counter's hash only shifts all its shards.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def choose(self, rows: Rows, _partitions: int, /) -> Integers:
        named = rows.members.is_valid().to_numpy(zero_copy_only=False)
        chosen = np.empty(len(named), np.int64)
        chosen[named] = hashes_of(rows.members.drop_null()) % rows.shards[named]
        chosen[~named] = self._rng.integers(rows.shards[~named])
        return chosen


class _RoundRobin:
    """Each counter's rows take its shards in turn: exactly even in every batch.

    Numbers run on from batch to batch, and begin at random, so that producers do not march in step.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._next = rng.integers(1 << _SHARDS_BITS, size=_TURNS)

    def choose(self, rows: Rows, _partitions: int, /) -> Integers:
        turns = (rows.hashes % _TURNS).astype(np.uint16)
        counts = np.bincount(turns, minlength=_TURNS)
        order = np.argsort(turns, kind="stable")
        begins = self._next - (np.cumsum(counts) - counts)
        numbers = np.empty(len(turns), np.int64)
        numbers[order] = begins[turns[order]] + np.arange(len(turns))
        self._next += counts
        return numbers % rows.shards


class _ByTime:
    """All rows of one second are in one shard, the next second's in the next.

    Good where a batch should touch few partitions: a second's rows of a counter are in the frames
    of one and in one cell to flush, not n. Bad where one partition cannot bear the counter for a
    second, since only one is busy at a time; and late rows come in bursts on one shard.
    """

    def choose(self, rows: Rows, _partitions: int, /) -> Integers:
        return rows.at_ms // TIME_BUCKET_MS % rows.shards


class _LeastLoaded:
    """Where the fewest rows wait to be confirmed, each row of a batch waiting as well.

    So a partition that is slow gets only as much as it confirms. Costs one step per counter in the
    batch, where the others cost nothing but rows.
    """

    def __init__(self, rng: np.random.Generator, in_flight: InFlight) -> None:
        self._rng = rng
        self._in_flight = in_flight

    def choose(self, rows: Rows, partitions: int, /) -> Integers:
        loads = self._in_flight().copy()
        counters = rows.hashes << _SHARDS_BITS | rows.shards
        order = np.argsort(counters, kind="stable")
        begins = np.flatnonzero(np.diff(counters[order], prepend=-1))
        chosen = np.empty(len(counters), np.int64)
        for of_one in np.split(order, begins)[1:]:
            # In any order, or equal loads would always fill a counter's first shard first.
            shards = self._rng.permutation(rows.shards[of_one[0]])
            places = counter_partitions_of(rows.hashes[of_one[0]], shards, partitions)
            filled = _filled(loads[places], len(of_one))
            loads[places] += filled
            chosen[of_one] = np.repeat(shards, filled)
        return chosen


def _filled(loads: Integers, rows: int) -> Integers:
    """How many of the rows each gets, if each row goes to the least load there is by then.

    Like water: those below the final level are raised to it, those above get none.
    """
    order = np.argsort(loads, kind="stable")
    levels, sums = loads[order], np.cumsum(loads[order])
    missing = np.arange(1, len(loads) + 1) * levels - sums
    raised = int(np.count_nonzero(missing <= rows))
    level, rest = divmod(rows + int(sums[raised - 1]), raised)
    filled = np.zeros_like(loads)
    filled[order[:raised]] = level - levels[:raised]
    filled[order[:rest]] += 1
    return filled
