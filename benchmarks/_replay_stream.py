"""A day's traffic in small: increments of three families, as JSON or packed as a producer packs.

The truth is summed from the same random numbers with NumPy alone, before anything of the program
under test sees them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.planning.plan import Plan
from pipeline.producer.packing import pack
from pipeline.sharding import chooser
from schemas.frames import FRAME_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Int64Column = NDArray[np.int64]
    CellName = tuple[str, str, int]

SEED = 1
FAMILIES = {"likes:post": 0.5, "views:page": 0.35, "hashtag:#tag": 0.15}
"""How counters of each family begin, and their share of the increments."""

COUNTERS = 50_000
"""Of each family, unless a stream is told otherwise."""

ZIPF = 1.3
MEMBERS = 100_000
REGIONS = {"eu": 0.5, "us": 0.3, "ap": 0.2}
REMOVALS = 0.05
WINDOW_MS = 60_000


class Message(NamedTuple):
    """A record to be: where it goes, and when the log got it."""

    partition: int
    at_ms: int
    value: bytes


@dataclass
class Stream:
    """So many increments, evenly over so many minutes, given in batches of one producer each.

    Counters go by Zipf's law, unless they `are_alike`. `rows` counts what the log gets: combined
    increments are one row.
    """

    increments: int
    batch: int
    minutes: int
    partitions: int
    start_ms: int
    members: bool
    counters: int = COUNTERS
    are_alike: bool = False
    rows: int = 0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(SEED)
        names = [f"{name}-{n}" for name in FAMILIES for n in range(self.counters)]
        self._names = pa.array(names)
        self._places = np.array([crc32(name.encode()) % self.partitions for name in names])
        self._members = pa.array([f"user-{n}" for n in range(MEMBERS)])
        self._regions = pa.array(list(REGIONS))
        self._first_minute = self.start_ms // WINDOW_MS
        shape = (len(self._names), len(REGIONS), self.minutes + 1)
        self._net = np.zeros(shape, np.int64)
        self._hits = np.zeros(shape, np.int64)

    def frames(self) -> Iterator[Message]:
        """As `Producer` writes them: combined where there is neither member nor id."""
        plan, choose = Plan(self.partitions, self.partitions), chooser("random", seed=SEED)
        for columns, _ in self._batches():
            sent_ms = columns["at"][-1].as_py()
            for frame in pack(columns, plan, choose, sent_ms).frames:
                self.rows += frame.rows
                yield Message(frame.partition, sent_ms, frame.value)

    def json(self) -> Iterator[Message]:
        """One record for each increment, where the counter's frames would be."""
        for columns, places in self._batches():
            self.rows += columns.num_rows
            parts: list[Any] = ['{"counter":"', columns["counter"], '","delta":']
            parts += [columns["delta"].cast(pa.string()), ',"at":', columns["at"].cast(pa.string())]
            if self.members:
                parts += [',"member":"', columns["member"], '"']
            parts += [',"region":"', columns["region"], '"}']
            lines = pc.binary_join_element_wise(*parts, "").cast(pa.binary()).to_pylist()
            times_ms = columns["at"].to_pylist()
            yield from map(Message, places.tolist(), times_ms, lines)

    def truth(self) -> dict[CellName, int]:
        """Additions less removals of each counter, region and minute that has any."""
        counters, regions, minutes = np.nonzero(self._hits)
        names, places = self._names.to_pylist(), self._regions.to_pylist()
        windows_ms = ((minutes + self._first_minute) * WINDOW_MS).tolist()
        net = self._net[counters, regions, minutes].tolist()
        keys = zip(
            map(names.__getitem__, counters.tolist()),
            map(places.__getitem__, regions.tolist()),
            windows_ms,
            strict=True,
        )
        return dict(zip(keys, net, strict=True))

    def _batches(self) -> Iterator[tuple[pa.Table, Int64Column]]:
        """Increments, and the partitions that their counters have as JSON."""
        for first in range(0, self.increments, self.batch):
            yield self._table(np.arange(first, min(first + self.batch, self.increments)))

    def _table(self, numbers: Int64Column) -> tuple[pa.Table, Int64Column]:
        size, rng = len(numbers), self._rng
        family = rng.choice(len(FAMILIES), size, p=list(FAMILIES.values()))
        if self.are_alike:
            which = rng.integers(0, self.counters, size)
        else:
            which = (rng.zipf(ZIPF, size) - 1) % self.counters
        counter = family * self.counters + which
        region = rng.choice(len(REGIONS), size, p=list(REGIONS.values()))
        delta = np.where((family == 0) & (rng.random(size) < REMOVALS), -1, 1)
        at_ms = self.start_ms + numbers * (self.minutes * WINDOW_MS) // self.increments
        cell = (counter, region, at_ms // WINDOW_MS - self._first_minute)
        np.add.at(self._net, cell, delta)
        np.add.at(self._hits, cell, 1)
        none = pa.nulls(size, pa.string())
        member = none
        if self.members:
            member = self._members.take(pa.array(rng.integers(0, MEMBERS, size)))
        names, regions = self._names.take(pa.array(counter)), self._regions.take(pa.array(region))
        arrays = [names, pa.array(delta), pa.array(at_ms), member, regions, none]
        return pa.table(arrays, schema=FRAME_SCHEMA), self._places[counter]
