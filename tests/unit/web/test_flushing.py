"""How far shards are, asked once for many; and having them flush, asked once for many."""

import asyncio
import threading
from typing import Any, cast

import pytest

from pipeline.errors import TryAgainError
from pipeline.producer.receipts import Places
from pipeline.reads.flush_requests import FlushRequests
from pipeline.web.flushed import Flushed, covers
from pipeline.web.flushing import APART_S, Flushing
from tests.unit.web.world import World, eventually, settled


def test_places_cover_what_is_at_or_before_them_in_every_shard() -> None:
    assert covers({}, {})
    assert covers({0: 5, 1: 7}, {0: 5})
    assert not covers({0: 5}, {0: 6})
    assert not covers({0: 5}, {1: 0})


async def test_those_who_look_together_share_a_look_and_a_young_one_is_taken_again(
    world: World,
) -> None:
    flushed = Flushed(world.asking, world.clock)
    looks = await asyncio.gather(*(flushed.look(0.1) for _ in range(20)))
    assert (world.looks, looks[0].places) == (1, {0: 10, 1: 10})
    world.clock.advance(0.09)
    await flushed.look(0.1)
    assert world.looks == 1
    world.clock.advance(0.02)
    await flushed.look(0.1)
    assert world.looks == 2


async def test_who_looks_again_and_again_never_waits_for_a_look(world: World) -> None:
    flushed = Flushed(world.asking, world.clock)
    await flushed.look(0.25, 0.1)
    world.clock.advance(0.2)
    world.flushed[0] = 11
    world.open.clear()
    looks = [await flushed.look(0.25, 0.1) for _ in range(3)]
    assert {look.places[0] for look in looks} == {10}, "the next look is under way"
    world.open.set()
    await settled()
    assert world.looks == 2
    assert (await flushed.look(0.25, 0.1)).places[0] == 11
    world.clock.advance(0.3)
    world.flushed[0] = 12
    assert (await flushed.look(0.25, 0.1)).places[0] == 12, "what is too old is not told"


async def test_a_look_ahead_that_failed_is_no_news_to_who_did_not_wait_for_it(
    world: World,
) -> None:
    flushed = Flushed(world.asking, world.clock)
    await flushed.look(0.25, 0.1)
    world.clock.advance(0.2)
    world.error = TryAgainError("away")
    assert (await flushed.look(0.25, 0.1)).places[0] == 10
    await settled()
    world.clock.advance(0.1)
    with pytest.raises(TryAgainError):
        await flushed.look(0.25, 0.1)


async def test_the_build_is_chosen_anew_after_a_moment_and_when_partitions_came(
    world: World,
) -> None:
    flushed = Flushed(world.asking, world.clock)
    for _ in range(4):
        await flushed.look(0)
        world.clock.advance(0.4)
    assert world.looked_at == [None, 1, 1, None]
    world.live = 2
    world.flushed[2] = 5
    look = await flushed.look(0)
    assert look.ground.border is not None
    assert look.ground.border.build == 2
    assert world.looked_at[4:] == [1, None]
    world.clock.advance(0.1)
    await flushed.look(0)
    assert world.looked_at[6:] == [2]


async def test_a_look_that_failed_is_told_to_all_and_the_next_one_looks_again(
    world: World,
) -> None:
    flushed = Flushed(world.asking, world.clock)
    world.error = TryAgainError("away")
    found = await asyncio.gather(*(flushed.look(1) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(one, TryAgainError) for one in found)
    world.error = None
    assert (await flushed.look(1)).places == {0: 10, 1: 10}


async def test_waiting_ends_when_the_places_are_there_or_tells_who_is_behind(world: World) -> None:
    flushed = Flushed(world.asking, world.clock)
    assert await flushed.wait({0: 10, 1: 3}, 0) == []
    world.clock.advance(1)
    [behind] = await flushed.wait({0: 11, 1: 3}, 0)
    assert (behind.shard, behind.through, behind.offset) == (0, 10, 11)
    waiting = asyncio.create_task(flushed.wait({0: 11}, 60))
    await settled()
    assert not waiting.done()
    world.flushed[0] = 11
    world.clock.advance(1)
    assert await asyncio.wait_for(waiting, 5) == []


class Requests:
    """FlushRequests whose answers a test gives; the log ends one further with each."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked = 0
        self.error: Exception | None = None
        self.open = threading.Event()
        self.open.set()
        self.flushes = True
        self.closed = False

    def ask(self) -> Places:
        self.asked += 1
        assert self.open.wait(10)
        if self.error is not None:
            raise self.error
        places = Places({0: 10 + self.asked})
        if self.flushes:
            self.world.flushed |= places
            self.world.clock.advance(1)
        return places

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def requests(world: World) -> Requests:
    return Requests(world)


def flushing_of(world: World, requests: Requests) -> Flushing:
    flushed = Flushed(world.asking, world.clock)
    return Flushing(lambda: cast("FlushRequests", requests), flushed, world.clock)


async def test_requests_that_come_together_are_one(world: World, requests: Requests) -> None:
    flushing = flushing_of(world, requests)
    assert await asyncio.gather(*(flushing.flush(10) for _ in range(100))) == [""] * 100
    assert requests.asked == 1


async def test_one_that_comes_while_another_is_under_way_gets_its_own(
    world: World, requests: Requests
) -> None:
    flushing = flushing_of(world, requests)
    requests.open.clear()
    first = asyncio.create_task(flushing.flush(10))
    await eventually(lambda: requests.asked)
    later = [asyncio.create_task(flushing.flush(10)) for _ in range(10)]
    await settled()
    assert requests.asked == 1
    requests.open.set()
    await asyncio.wait_for(asyncio.gather(first, *later), 5)
    assert requests.asked == 2


async def test_requests_are_apart_but_the_first_after_a_pause_goes_at_once(
    world: World, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def sleeping(delay_s: float) -> None:
        slept.append(delay_s)
        await sleep(0)

    monkeypatch.setattr("pipeline.web.flushing.asyncio.sleep", sleeping)
    requests.flushes = False
    world.flushed[0] = 100
    flushing = flushing_of(world, requests)
    await flushing.flush(10)
    await flushing.flush(10)
    world.clock.advance(60)
    await flushing.flush(10)
    assert [delay_s for delay_s in slept if delay_s] == [pytest.approx(APART_S)]


async def test_a_shard_that_does_not_flush_in_time_is_named(
    world: World, requests: Requests
) -> None:
    requests.flushes = False
    assert await flushing_of(world, requests).flush(0) in {
        "shard 0 is at 10 of 11",
        "Kafka did not take the request within 0 s",
    }
    requests.flushes = False
    ticking = asyncio.create_task(tick(world))
    assert await flushing_of(world, requests).flush(5) == "shard 0 is at 10 of 12"
    ticking.cancel()


async def tick(world: World) -> None:
    while True:
        await asyncio.sleep(0.01)
        world.clock.advance(1)


async def test_a_kafka_that_is_away_or_hangs_is_a_reason_and_no_endless_wait(
    world: World, requests: Requests
) -> None:
    flushing = flushing_of(world, requests)
    requests.error = TryAgainError("Kafka is away")
    assert await flushing.flush(10) == "Kafka is away"
    world.clock.advance(1)
    requests.open.clear()
    assert await flushing.flush(0.05) == "Kafka did not take the request within 0.05 s"
    requests.open.set()
    flushing.close()
    assert requests.closed


async def test_positions_and_border_are_of_one_build_also_when_another_becomes_live(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = world.rows

    def swapped(query: str, parameters: Any = None) -> list[tuple[int, ...]]:
        world.live = 2
        return rows(query, parameters)

    monkeypatch.setattr(world, "rows", swapped)
    ground = (await Flushed(world.asking, world.clock).look(0)).ground
    assert world.looked_at == [None, 2]
    assert ground.border is not None
    assert {one.build for one in ground.positions} == {ground.border.build} == {2}


async def test_there_is_no_border_where_the_build_that_became_live_has_other_shards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = world.rows

    def swapped(query: str, parameters: Any = None) -> list[tuple[int, ...]]:
        world.live, world.flushed = 2, {0: 10, 1: 10, 2: 0}
        return rows(query, parameters)

    monkeypatch.setattr(world, "rows", swapped)
    ground = (await Flushed(world.asking, world.clock).look(0)).ground
    assert (len(ground.positions), ground.border) == (3, None)
