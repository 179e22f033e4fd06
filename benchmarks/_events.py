"""The events that every contestant counts, and the truth about them.

Nothing here imports the program under test: a mistake of its own could otherwise hide in the truth.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED = 1
COUNTERS = 50_000
ZIPF = 1.3
MEMBERS = 100_000
REGIONS = ("eu", "us", "ap")
REMOVALS = 0.05
SPAN_MS = 240_000
"""The events spread evenly over so much time, in order."""

WINDOW_MS = 60_000

CellName = tuple[str, str, int]
"""Counter, region, and when the minute began."""


@dataclass(frozen=True, slots=True)
class Event:
    """One increment with every field but the id."""

    counter: str
    delta: int
    at: int
    member: str
    region: str

    def as_json(self) -> bytes:
        """The event as a producer writes it, about 95 bytes."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(fields, separators=(",", ":")).encode()

    def cell(self) -> CellName:
        """Which count it belongs to."""
        return self.counter, self.region, self.at - self.at % WINDOW_MS


def make_events(count: int, start_ms: int, seed: int = SEED) -> list[Event]:
    """The same events for the same arguments: counters by Zipf's law, a twentieth removals."""
    chance = random.Random(seed)
    weights = list(accumulate(rank**-ZIPF for rank in range(1, COUNTERS + 1)))
    ranks = chance.choices(range(COUNTERS), cum_weights=weights, k=count)
    regions = chance.choices(REGIONS, k=count)
    return [
        Event(
            counter=f"likes:post-{rank}",
            delta=-1 if chance.random() < REMOVALS else 1,
            at=start_ms + number * SPAN_MS // count,
            member=f"user-{chance.randrange(MEMBERS)}",
            region=region,
        )
        for number, (rank, region) in enumerate(zip(ranks, regions, strict=True))
    ]


def by_partition(events: Iterable[Event], partitions: int) -> list[list[Event]]:
    """The events of each partition in log order; a counter's events are all in one."""
    parts: list[list[Event]] = [[] for _ in range(partitions)]
    for event in events:
        parts[crc32(event.counter.encode()) % partitions].append(event)
    return parts


def truth(events: Iterable[Event]) -> dict[CellName, int]:
    """What every right count of the events is: additions less removals."""
    sums: Counter[CellName] = Counter()
    for event in events:
        sums[event.cell()] += event.delta
    return dict(sums)
