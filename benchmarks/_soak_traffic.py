"""The traffic of a soak: every kind of family, fresh ids, counters and members that come and go.

At any time there are as many counters and members as at any other, as in real traffic; each lives
for ten minutes, then another one comes in its place. Nothing here does I/O, and the truth is summed
from the same random numbers, with NumPy alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64Column = NDArray[np.int64]

RULES = """\
ids_per_partition = 50000

[families.likes]
distinct = { grains = ["1m", "1h", "1d"] }

[families.views]
kind = "sketched"

[families.follows]
once_per = "member"

[families.stock]
kind = "strict"
"""
"""`orders`, whose events have ids, is as the default is: exact, with distinct members and trends.
So few ids are remembered that they are as many as they will ever be after a minute."""

SHARES = {"likes": 0.45, "orders": 0.10, "views": 0.40, "follows": 0.05}
"""Of the events. `likes` have members, and a twentieth takes away; `views` have nothing beside
their counter and region; `follows` count once per member, until taken back."""

COUNTERS = {"likes": 50_000, "orders": 10_000, "views": 50_000}
MEMBERS = 50_000
ZIPF = 1.3
REGIONS = ("eu", "us", "ap")
REMOVALS = 0.05
REPEATED_IDS = 0.05
LIFE_S = 600.0
STEP_S = 10.0
"""Names change every so often, a share of them at a time."""

PAIRS = 20_000
PAIRS_PER_S = 10.0
"""Pairs of channel and follower that events are about, and how many of them are replaced. They are
remembered for good, so these make a worker grow: benchmarks/_soak_known.py has how much."""

FOLLOWERS_PER_CHANNEL = 100
TAKEN_BACK = 0.3
SEED = 1


class Population:
    """So many names at any time; each lives for LIFE_S, then another comes in its place."""

    def __init__(self, prefix: str, size: int) -> None:
        self._prefix = prefix
        self._steps = int(LIFE_S / STEP_S)
        # Neighbours change at different times: else all that is often heard of would at once.
        self._phases = np.arange(size) * 7919 % self._steps

    def generations(self, at_s: float) -> Int64Column:
        """By number: who has it by then, so many seconds after the beginning."""
        found: Int64Column = (int(at_s // STEP_S) + self._phases) // self._steps
        return found

    def name(self, number: int, at_s: float) -> str:
        """Of who has this number by then."""
        return self.named(number, int(self.generations(at_s)[number]))

    def named(self, number: int, generation: int) -> str:
        """Of one who has or had this number."""
        return f"{self._prefix}{number}-{generation}"


class Rows(NamedTuple):
    """Events of one family, in the order in which they are sent, and where each goes."""

    partitions: Int64Column
    counters: pa.Array
    deltas: Int64Column
    regions: pa.Array
    members: pa.Array | None = None
    ids: pa.Array | None = None

    def as_json(self) -> list[bytes]:
        """A document each, without a time: the log's own is that of a live stream."""
        parts: list[Any] = ['{"counter":"', self.counters, '","delta":']
        parts += [pa.array(self.deltas).cast(pa.string()), ',"region":"', self.regions]
        for name, column in (("member", self.members), ("id", self.ids)):
            if column is not None:
                parts += [f'","{name}":"', column]
        lines: list[bytes] = (
            pc.binary_join_element_wise(*parts, '"}', "").cast(pa.binary()).to_pylist()
        )
        return lines

    def as_columns(self, partition: int) -> dict[str, pa.Array]:
        """Those of one partition, as a frame has them; of nothing there is a null."""
        chosen = pa.array(np.flatnonzero(self.partitions == partition))
        none = pa.nulls(len(self.deltas), pa.string())
        columns = {
            "counter": self.counters,
            "delta": pa.array(self.deltas),
            "member": none if self.members is None else self.members,
            "region": self.regions,
            "id": none if self.ids is None else self.ids,
        }
        return {name: column.take(chosen) for name, column in columns.items()}


class _Named:
    """The names of a population as a column, and which partition each counter is in."""

    def __init__(self, prefix: str, size: int, partitions: int) -> None:
        self._population = Population(prefix, size)
        self._partitions = partitions
        self._step = -1
        self._generations = np.full(size, -1, np.int64)
        self._texts = [""] * size
        self.names = pa.array(self._texts)
        self.places = np.zeros(size, np.int64)

    def follow(self, at_s: float) -> None:
        """Replace those whose time is over; costs as much as there are such."""
        if (step := int(at_s // STEP_S)) == self._step:
            return
        self._step, now = step, self._population.generations(at_s)
        changed = np.flatnonzero(now != self._generations)
        self._generations = now
        numbers = changed.tolist()
        new = list(map(self._population.named, numbers, now[changed].tolist()))
        for number, text in zip(numbers, new, strict=True):
            self._texts[number] = text
        self.places[changed] = _places(new, self._partitions)
        self.names = pa.array(self._texts)


class Traffic:
    """Batches of events, and what they come to: `net` has the total of each family so far."""

    def __init__(self, partitions: int, seconds: float, seed: int = SEED) -> None:
        """For a run of so many seconds."""
        self._partitions = partitions
        self._rng = np.random.default_rng(seed)
        self._regions = pa.array(REGIONS)
        self._members = _Named("user-", MEMBERS, partitions)
        self._counters = {
            family: _Named(f"{family}:key-", size, partitions) for family, size in COUNTERS.items()
        }
        self._is_following = np.zeros(math.ceil(pairs_at(seconds)) + 1, np.bool_)
        self._batches = 0
        self.net = dict.fromkeys(SHARES, 0)

    def batch(self, size: int, at_s: float) -> list[Rows]:
        """About so many events, as they are sent so many seconds after the beginning."""
        self._batches += 1
        for named in (self._members, *self._counters.values()):
            named.follow(at_s)
        sizes = {family: round(size * share) for family, share in SHARES.items()}
        return [
            self._likes(sizes["likes"]),
            self._orders(sizes["orders"]),
            self._views(sizes["views"]),
            self._follows(sizes["follows"], at_s),
        ]

    def _likes(self, size: int) -> Rows:
        which = self._chosen("likes", size)
        deltas = np.where(self._rng.random(size) < REMOVALS, -1, 1)
        self.net["likes"] += int(deltas.sum())
        named = self._counters["likes"]
        return Rows(
            named.places[which],
            named.names.take(which),
            deltas,
            self._places(size),
            self._who(size),
        )

    def _orders(self, size: int) -> Rows:
        """The last ones are the first ones again, with the same ids: they count once."""
        again = int(size * REPEATED_IDS)
        new = size - again
        self.net["orders"] += new
        numbers = np.concatenate([np.arange(new), np.arange(again)])
        which = self._chosen("orders", new)[numbers]
        ids = pc.binary_join_element_wise(
            f"{self._batches:x}", pa.array(numbers).cast(pa.string()), "-"
        )
        counters = self._counters["orders"].names.take(which)
        places = _places(_joined(counters, ids), self._partitions)
        members, regions = self._who(new).take(numbers), self._places(new).take(numbers)
        return Rows(places, counters, np.ones(size, np.int64), regions, members, ids)

    def _views(self, size: int) -> Rows:
        which, named = self._chosen("views", size), self._counters["views"]
        self.net["views"] += size
        ones = np.ones(size, np.int64)
        return Rows(named.places[which], named.names.take(which), ones, self._places(size))

    def _follows(self, size: int, at_s: float) -> Rows:
        """After an event its pair is as the event wants it, whatever it was before."""
        newest = int(pairs_at(at_s))
        pairs = self._rng.integers(newest - PAIRS, newest, size)
        wanted = self._rng.random(size) >= TAKEN_BACK
        self._is_following[pairs] = wanted
        self.net["follows"] = int(np.count_nonzero(self._is_following))
        channels = pa.array(pairs // FOLLOWERS_PER_CHANNEL).cast(pa.string())
        counters = pc.binary_join_element_wise("follows:channel-", channels, "")
        members = pc.binary_join_element_wise("fan-", pa.array(pairs).cast(pa.string()), "")
        places = _places(_joined(counters, members), self._partitions)
        return Rows(places, counters, np.where(wanted, 1, -1), self._places(size), members)

    def _chosen(self, family: str, size: int) -> Int64Column:
        numbers: Int64Column = (self._rng.zipf(ZIPF, size) - 1) % COUNTERS[family]
        return numbers

    def _who(self, size: int) -> pa.Array:
        return self._members.names.take(self._rng.integers(0, MEMBERS, size))

    def _places(self, size: int) -> pa.Array:
        return self._regions.take(self._rng.integers(0, len(REGIONS), size))


def pairs_at(at_s: float) -> float:
    """How many pairs of channel and follower there have been by then."""
    return PAIRS + PAIRS_PER_S * at_s


def _joined(firsts: pa.Array, seconds: pa.Array) -> list[str]:
    texts: list[str] = pc.binary_join_element_wise(firsts, seconds, "\0").to_pylist()
    return texts


def _places(texts: Sequence[str], partitions: int) -> Int64Column:
    """Where all events of a text meet, as docs/sharding.md has it."""
    hashes = np.fromiter((crc32(text.encode()) for text in texts), np.int64, len(texts))
    return hashes % partitions
