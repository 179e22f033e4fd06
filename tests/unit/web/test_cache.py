"""Values are kept for a while, within bounds; hot ones are there before they are asked for."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pipeline.errors import TryAgainError
from pipeline.web.batches import Batches
from pipeline.web.cache import Cache
from tests.kit.clocks import ManualClock
from tests.unit.web.world import eventually, settled

AGE_S = 2.0


@dataclass(frozen=True)
class Value:
    text: str
    asked_s: float


class Source:
    """Loads values, and counts the questions."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.keys: list[str] = []
        self.error: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.reads: list[bool] = []
        self.warmed = 0
        self.cache = self.made()

    def made(self, entries_max: int = 100, age_s: float = AGE_S) -> Cache[str, Value]:
        return Cache(
            Batches(self.load),
            self.clock,
            age_s,
            entries_max=entries_max,
            on_read=self.reads.append,
            on_warmed=self.on_warmed,
        )

    def on_warmed(self, values: int) -> None:
        self.warmed += values

    async def load(self, keys: Sequence[str]) -> dict[str, Value]:
        asked_s = self.clock.monotonic_s()
        self.keys += keys
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return {key: Value(f"{key}{self.keys.count(key)}", asked_s) for key in keys}


@pytest.fixture
def source() -> Source:
    return Source()


async def test_a_value_is_kept_for_its_age_and_no_longer(source: Source) -> None:
    assert (await source.cache.get("a")).text == "a1"
    source.clock.advance(AGE_S)
    assert (await source.cache.get("a")).text == "a1"
    source.clock.advance(0.001)
    assert source.cache.kept("a") is None
    assert (await source.cache.get("a")).text == "a2"
    assert source.reads == [False, True, False]


async def test_the_age_counts_from_when_the_question_began(source: Source) -> None:
    source.open.clear()
    read = asyncio.create_task(source.cache.get("a"))
    await settled()
    source.clock.advance(AGE_S + 1)
    source.open.set()
    await read
    assert source.cache.kept("a") is None
    older = source.cache.kept("a", age_s=60)
    assert older is not None
    assert older.text == "a1"


async def test_reads_that_come_together_are_one_question(source: Source) -> None:
    source.open.clear()
    reads = [asyncio.create_task(source.cache.get("a")) for _ in range(50)]
    await settled()
    source.open.set()
    assert {one.text for one in await asyncio.gather(*reads)} == {"a1"}
    assert source.keys == ["a"]


async def test_an_answer_is_kept_although_nobody_waits_for_it_any_more(source: Source) -> None:
    source.open.clear()
    read = asyncio.create_task(source.cache.get("a"))
    await settled()
    read.cancel()
    await settled()
    source.open.set()
    await settled()
    assert source.cache.kept("a") == Value("a1", source.clock.monotonic_s())


async def test_those_read_longest_ago_go_first_when_the_bound_is_reached(source: Source) -> None:
    cache = source.made(entries_max=3)
    for key in "abc":
        await cache.get(key)
    await cache.get("a")
    await cache.get("d")
    assert len(cache) == 3
    assert [key for key in "abcd" if cache.kept(key)] == ["a", "c", "d"]


async def test_a_newer_value_from_elsewhere_is_taken_and_an_older_one_is_not(
    source: Source,
) -> None:
    value = await source.cache.get("a")
    source.cache.keep("a", Value("older", value.asked_s - 1))
    assert source.cache.kept("a") == value
    source.cache.keep("a", Value("newer", value.asked_s + 1))
    newer = source.cache.kept("a")
    assert newer is not None
    assert newer.text == "newer"


async def test_clearing_forgets_everything(source: Source) -> None:
    await source.cache.get("a")
    source.cache.clear()
    assert len(source.cache) == 0
    assert (await source.cache.get("a")).text == "a2"


async def test_hot_keys_are_loaded_before_they_are_too_old_and_others_are_not(
    source: Source,
) -> None:
    cache = source.made(age_s=0.04)
    for key in ("cold", "hot", "hot", "hot"):
        await cache.get(key)
    source.clock.advance(0.03)
    warming = asyncio.create_task(cache.keep_warm())
    try:
        await eventually(lambda: getattr(cache.kept("hot", 60), "text", "") == "hot2")
    finally:
        warming.cancel()
    assert source.keys == ["cold", "hot", "hot"]
    assert source.warmed == 1
    assert source.reads.count(False) == 2


async def test_what_was_hot_and_is_read_no_more_is_left_to_grow_old(source: Source) -> None:
    cache = source.made(age_s=0.04)
    for _ in range(3):
        await cache.get("once")
    source.clock.advance(0.05)
    warming = asyncio.create_task(cache.keep_warm())
    await asyncio.sleep(0.05)
    warming.cancel()
    assert source.keys == ["once"]


async def test_warming_goes_on_after_an_outage_and_tells_of_a_bug(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    cache = source.made(age_s=0.04)
    for _ in range(3):
        await cache.get("hot")
    source.clock.advance(0.03)
    source.error = TryAgainError("away")
    warming = asyncio.create_task(cache.keep_warm())
    try:
        await eventually(lambda: source.keys.count("hot") >= 3)
        assert caplog.records == []
        source.error = ValueError("bug")
        await eventually(lambda: caplog.records)
        assert {one.getMessage() for one in caplog.records} == {"values cannot be kept warm"}
        source.error = None
        await eventually(lambda: source.warmed == 1)
    finally:
        warming.cancel()
