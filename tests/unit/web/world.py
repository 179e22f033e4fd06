"""A ClickHouse in memory for tests of the web: what is flushed and counted, how it fails."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pytest

from pipeline.producer.receipts import Places
from pipeline.reads.as_of import as_of
from pipeline.reads.counts import CountAnswer, Ground, Scope
from pipeline.reads.reads import FlushedShard, Reads
from pipeline.reads.settled import Settled
from pipeline.rules import CountingRules
from pipeline.web import counting
from pipeline.web.asking import Asking
from tests.kit.clocks import ManualClock

Answer = TypeVar("Answer")


@dataclass
class World:
    """Stands in for an Asking, and for the Reads that questions are asked with."""

    clock: ManualClock = field(default_factory=ManualClock)
    values: dict[str, int] = field(default_factory=dict)
    latest: dict[str, Places] = field(default_factory=dict)
    flushed: dict[int, int] = field(default_factory=lambda: {0: 10, 1: 10})
    flushed_at_ms: int | None = None
    rolled_up_ms: int = 0
    error: Exception | None = None
    counts: int = 0
    looks: int = 0
    looked_at: list[int | None] = field(default_factory=list)
    live: int = 1
    applied: CountingRules | None = None
    noted: int = 0
    families: list[str] = field(default_factory=list)
    listed: int = 0
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.open.set()

    @property
    def asking(self) -> Asking:
        return cast("Asking", self)

    async def ask(self, question: Callable[[Reads], Answer]) -> Answer:
        """As Asking: waits while the world is not open, then answers or fails."""
        await self.open.wait()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return question(cast("Reads", self))

    def positions(self, build: int | None = None) -> list[FlushedShard]:
        self.looks += 1
        self.looked_at.append(build)
        at_ms = self.clock.now_ms() if self.flushed_at_ms is None else self.flushed_at_ms
        return [
            FlushedShard(shard, through, at_ms, through, at_ms, at_ms, build=build or self.live)
            for shard, through in self.flushed.items()
        ]

    def rules(self) -> CountingRules | None:
        """None while nobody applied any."""
        return self.applied

    def partitions(self) -> int:
        """0 while none are noted."""
        return self.noted

    def rows(self, query: str, _: Any = None) -> list[tuple[Any, ...]]:
        """Of the border: one build, one cluster, and no day is final. Nothing is adjusted."""
        if "tally.newest_windows" in query:
            self.listed += 1
            return [(name,) for name in self.families]
        if "tally.adjustments" in query:
            return [(0,)]
        assert "final_days" in query
        return [(self.live, 1, 0, 0)]

    def count_many(
        self,
        counters: Sequence[str],
        mode: Any,
        ground: Ground,
    ) -> dict[str, CountAnswer]:
        self.counts += 1
        self.asked.append((mode, list(counters)))
        now_ms = self.clock.now_ms()
        known = as_of(ground.positions, now_ms, ground.rules, ground.partitions)
        stale_ms = self.rolled_up_ms if mode == "cached" else known.staleness_ms
        return {
            counter: CountAnswer(
                counter,
                max(0, self.values.get(counter, 0)),
                self.values.get(counter, 0),
                [],
                mode,
                known.text,
                stale_ms,
                known.complete,
                is_strict=ground.is_strict(counter),
            )
            for counter in counters
        }


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """The world, behind the functions that questions of totals are made of."""
    made = World()

    def count_many(
        reads: Any,
        counters: Sequence[str],
        scope: Scope,
        mode: Any,
        rollup_interval_ms: int,
        *,
        ground: Ground,
        settled: Settled,
    ) -> dict[str, CountAnswer]:
        return made.count_many(counters, mode, ground)

    def last_places(reads: Any, counters: Sequence[str]) -> dict[str, Places]:
        return {counter: made.latest.get(counter, Places()) for counter in counters}

    monkeypatch.setattr(counting, "count_many", count_many)
    monkeypatch.setattr(counting, "last_places", last_places)
    return made


async def settled(rounds: int = 20) -> None:
    """Everybody has had every chance to go on."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def eventually(holds: Callable[[], object]) -> None:
    """Return when it holds; fail the test after five seconds."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)
