"""Totals in each mode: how old they may be, what they say of themselves, what a session sees."""

import asyncio
from typing import cast

import pytest

from pipeline.errors import TryAgainError
from pipeline.metrics.meter import UNMEASURED
from pipeline.producer.receipts import Places
from pipeline.reads.as_of import COMPLETE_WITHIN_MS
from pipeline.rules import CountingRules, FamilyRules, StrictRules
from pipeline.web import counting as counting_module
from pipeline.web.cache import ENTRIES_MAX
from pipeline.web.counting import LATE_S_MAX, LOAD_S_MAX, Asked, Counting, NotCountedYetError
from pipeline.web.flushed import Flushed
from pipeline.web.flushing import Flushing
from tests.unit.web.world import World, settled

LIKES = Asked("likes:a", None)
STOCK = Asked("stock:a", None)
STRICT = CountingRules(families={"stock": FamilyRules(strict=StrictRules())})
AGE_S = 2.0


class Flusher:
    """A Flushing whose outcome a test gives."""

    def __init__(self) -> None:
        self.why_not = ""
        self.calls = 0

    async def flush(self, timeout_s: float) -> str:
        self.calls += timeout_s > 0
        return self.why_not


def counting_of(
    world: World, *, cache_age_s: float = AGE_S, flusher: Flusher | None = None
) -> Counting:
    return Counting(
        world.asking,
        Flushed(world.asking, world.clock),
        cast("Flushing", flusher or Flusher()),
        world.clock,
        UNMEASURED,
        cache_age_s=cache_age_s,
        rollup_interval_s=60,
    )


async def test_a_cached_total_is_kept_grows_older_and_is_asked_for_again(world: World) -> None:
    counting = counting_of(world)
    world.values["likes:a"] = 3
    first = (await counting.cached(LIKES, {})).answer
    assert (first.total, first.mode, first.staleness_ms, first.complete) == (3, "cached", 0, True)
    world.values["likes:a"] = 4
    world.clock.advance(1.5)
    kept = (await counting.cached(LIKES, {})).answer
    assert (kept.total, kept.staleness_ms, kept.as_of) == (3, 1500, first.as_of)
    world.clock.advance(1)
    assert (await counting.cached(LIKES, {})).answer.total == 4
    assert world.counts == 2


async def test_only_so_many_totals_are_kept_and_those_read_longest_ago_go_first(
    world: World,
) -> None:
    counting = counting_of(world)
    one = await counting.cached(LIKES, {})
    for number in range(ENTRIES_MAX + 2):
        counting.cache.keep(Asked(f"likes:{number}", None), one)
    assert len(counting.cache) == ENTRIES_MAX
    assert counting.cache.kept(LIKES) is None
    assert counting.cache.kept(Asked("likes:1", None)) is None
    assert counting.cache.kept(Asked("likes:2", None)) is one


async def test_a_cached_total_ceases_to_be_complete_when_it_grows_too_old(world: World) -> None:
    counting = counting_of(world)
    world.flushed_at_ms = world.clock.now_ms() - COMPLETE_WITHIN_MS + 1000
    assert (await counting.cached(LIKES, {})).answer.complete
    world.clock.advance(1.5)
    aged = (await counting.cached(LIKES, {})).answer
    assert (aged.complete, aged.staleness_ms) == (False, COMPLETE_WITHIN_MS + 500)


async def test_while_clickhouse_is_away_what_was_known_last_is_told_as_incomplete(
    world: World,
) -> None:
    counting = counting_of(world)
    world.values["likes:a"] = 3
    await counting.cached(LIKES, {})
    world.error = TryAgainError("away")
    world.clock.advance(AGE_S + 3)
    late = (await counting.cached(LIKES, {})).answer
    assert (late.total, late.complete, late.staleness_ms) == (3, False, 5000)
    assert late.remarks == ["ClickHouse does not answer: this is what was known last"]
    world.clock.advance(LATE_S_MAX)
    with pytest.raises(TryAgainError, match="away"):
        await counting.cached(LIKES, {})
    with pytest.raises(TryAgainError, match="away"):
        await counting.cached(Asked("never:seen", None), {})


async def test_a_clickhouse_that_hangs_holds_no_cached_read_up_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_module, "LOAD_S_MAX", 0.02)
    counting = counting_of(world)
    world.values["likes:a"] = 3
    await counting.cached(LIKES, {})
    world.clock.advance(AGE_S + 1)
    world.open.clear()
    late = await asyncio.wait_for(counting.cached(LIKES, {}), 5)
    assert (late.answer.total, late.answer.complete) == (3, False)
    assert late.answer.remarks == ["ClickHouse is slow: this is what was known last"]
    # Those who come while it is still being asked do not wait at all.
    world.clock.advance(1)
    reading = asyncio.create_task(counting.cached(LIKES, {}))
    await settled()
    assert reading.done()
    assert reading.result().answer.remarks == late.answer.remarks
    world.open.set()
    await settled()
    # The question that took too long is answered to whoever comes next.
    assert (await counting.cached(LIKES, {})).answer.complete
    assert world.counts == 2


async def test_a_thousand_readers_of_a_slow_clickhouse_are_not_a_thousand_questions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_module, "LOAD_S_MAX", 0.02)
    counting = counting_of(world)
    world.open.clear()
    reads = [asyncio.create_task(counting.cached(LIKES, {})) for _ in range(1000)]
    await asyncio.sleep(0.1)
    world.open.set()
    found = await asyncio.wait_for(asyncio.gather(*reads), 5)
    assert {one.answer.mode for one in found} <= {"cached", "exact"}
    assert world.counts <= 2


async def test_rolled_up_totals_are_taken_where_they_may_be_so_old_and_else_the_exact_sum(
    world: World,
) -> None:
    counting = counting_of(world, cache_age_s=120)
    world.rolled_up_ms = 70_000
    found = await counting.cached(LIKES, {})
    assert (found.answer.mode, found.answer.staleness_ms, found.places) == ("cached", 70_000, {})
    world.clock.advance(51)
    too_old = await counting.cached(LIKES, {})
    assert (too_old.answer.mode, too_old.answer.staleness_ms) == ("exact", 0)
    assert [mode for mode, _ in world.asked] == ["cached", "exact"]


async def test_exact_is_asked_for_after_the_call_and_together(world: World) -> None:
    counting = counting_of(world)
    await counting.cached(LIKES, {})
    world.values["likes:a"] = 9
    found = await asyncio.gather(
        *(counting.exact(Asked(f"likes:{key}", None), {}, 0) for key in "aaab")
    )
    assert [one.answer.total for one in found] == [9, 9, 9, 0]
    assert world.asked[-1] == ("exact", ["likes:a", "likes:b"])


async def test_regions_are_asked_for_one_by_one(world: World) -> None:
    counting = counting_of(world)
    asked = [Asked("likes:a", region) for region in (None, "eu", "")]
    found = await asyncio.gather(*(counting.exact(one, {}, 0) for one in asked))
    assert len(found) == 3
    assert world.counts == 3


async def test_after_waits_until_the_places_are_counted_or_says_who_is_behind(
    world: World,
) -> None:
    counting = counting_of(world)
    with pytest.raises(NotCountedYetError, match="shard 1 is at 10 of 12; ask again later"):
        await counting.exact(LIKES, {1: 12}, 0)
    reading = asyncio.create_task(counting.exact(LIKES, {1: 12}, 60))
    await settled()
    assert not reading.done()
    world.flushed[1] = 12
    world.clock.advance(1)
    assert (await asyncio.wait_for(reading, 5)).places == {0: 10, 1: 12}


async def test_live_is_exact_after_a_flush_and_incomplete_where_a_shard_is_behind(
    world: World,
) -> None:
    flusher = Flusher()
    counting = counting_of(world, flusher=flusher)
    world.values["likes:a"] = 3
    found = (await counting.live(LIKES, {}, 1)).answer
    assert (found.mode, found.total, found.complete, found.remarks) == ("live", 3, True, [])
    flusher.why_not = "shard 1 is at 10 of 12"
    behind = (await counting.live(LIKES, {}, 1)).answer
    assert (behind.mode, behind.total, behind.complete) == ("live", 3, False)
    assert behind.remarks == ["not flushed on request: shard 1 is at 10 of 12"]
    assert flusher.calls == 2


async def test_live_does_not_go_back_behind_what_a_session_has_seen(world: World) -> None:
    """Nobody flushed, and this process looked at positions before another one answered."""
    flusher = Flusher()
    flusher.why_not = "Kafka is away"
    counting = counting_of(world, flusher=flusher)
    world.values["likes:a"] = 3
    await counting.exact(LIKES, {}, 1)
    world.values["likes:a"], world.flushed[0] = 5, 11
    world.clock.advance(0.06)
    found = await counting.live(LIKES, {0: 11}, 1)
    assert (found.answer.total, found.answer.complete, found.places[0]) == (5, False, 11)
    reading = asyncio.create_task(counting.live(LIKES, {0: 12}, 1))
    await settled()
    world.clock.advance(LOAD_S_MAX)
    with pytest.raises(NotCountedYetError, match="shard 0 is at 11 of 12"):
        await asyncio.wait_for(reading, 5)


async def test_a_session_takes_what_is_kept_only_if_that_has_all_it_has_seen(world: World) -> None:
    counting = counting_of(world)
    world.values["likes:a"], world.latest["likes:a"] = 3, Places({0: 8})
    first = await counting.cached(LIKES, {})
    assert first.latest == {0: 8}
    assert (await counting.cached(LIKES, {0: 10})).answer.mode == "cached"
    assert world.counts == 1
    world.values["likes:a"], world.flushed[0] = 5, 11
    world.clock.advance(0.5)
    newer = await counting.cached(LIKES, {0: 11})
    assert (newer.answer.total, newer.answer.mode, newer.places[0]) == (5, "exact", 11)
    # It is kept for the next, also for one without a session.
    assert (await counting.cached(LIKES, {0: 11})).answer.mode == "cached"
    assert (await counting.cached(LIKES, {})).answer.total == 5
    assert world.counts == 2


async def test_a_session_does_not_go_back_when_a_flush_came_between_positions_and_sum(
    world: World,
) -> None:
    """Two web processes: one sums cells whose position is not told yet, the other has an older sum.

    Its places are the same, since no position moved; only the latest place tells them apart.
    """
    other, one = counting_of(world), counting_of(world)
    world.values["likes:a"], world.latest["likes:a"] = 3, Places({0: 10})
    await other.cached(LIKES, {})
    world.values["likes:a"], world.latest["likes:a"] = 7, Places({0: 12})
    seen = await one.exact(LIKES, {}, 0)
    assert (seen.answer.total, seen.places[0], seen.latest) == (7, 10, {0: 12})
    reading = asyncio.create_task(other.cached(LIKES, seen.latest))
    await settled()
    assert not reading.done()
    world.flushed[0] = 12
    world.clock.advance(0.5)
    assert (await asyncio.wait_for(reading, 5)).answer.total == 7


async def test_a_session_that_is_ahead_of_clickhouse_is_refused_and_never_answered_older(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_module, "LOAD_S_MAX", 0)
    with pytest.raises(NotCountedYetError):
        await counting_of(world).cached(LIKES, {5: 1})


async def test_while_clickhouse_is_away_a_session_is_told_what_has_all_it_has_seen_or_nothing(
    world: World,
) -> None:
    counting = counting_of(world)
    world.values["likes:a"] = 3
    await counting.cached(LIKES, {})
    world.error = TryAgainError("away")
    world.clock.advance(AGE_S + 1)
    late = (await counting.cached(LIKES, {0: 10})).answer
    assert (late.total, late.complete, late.staleness_ms) == (3, False, 3000)
    assert late.remarks == ["ClickHouse does not answer: this is what was known last"]
    for seen in ({0: 11}, {0: 1, 2: 0}):
        with pytest.raises(TryAgainError, match="away"):
            await counting.cached(LIKES, seen)
    world.clock.advance(LATE_S_MAX)
    with pytest.raises(TryAgainError, match="away"):
        await counting.cached(LIKES, {0: 1})


async def test_a_clickhouse_that_hangs_holds_no_session_up_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_module, "LOAD_S_MAX", 0.02)
    counting = counting_of(world)
    await counting.cached(LIKES, {})
    world.clock.advance(AGE_S + 1)
    world.open.clear()
    late = await asyncio.wait_for(counting.cached(LIKES, {0: 10}), 5)
    assert not late.answer.complete


async def test_a_strict_counter_is_never_answered_older_than_it_was_seen(world: World) -> None:
    """Its session is empty, since no place of the log of increments speaks of it."""
    world.applied, world.values["stock:a"] = STRICT, 7
    counting = counting_of(world)
    assert (await counting.cached(STOCK, {})).answer.total == 7
    world.values["stock:a"] = 6
    exact = await counting.exact(STOCK, {}, 0)
    assert (exact.answer.total, exact.latest) == (6, {})
    assert (await counting.cached(STOCK, exact.latest)).answer.total == 6
    assert (await counting.cached(STOCK, {0: 10})).answer.total == 6


async def test_a_strict_counter_takes_no_question_that_began_before_the_call(world: World) -> None:
    world.applied, world.values["stock:a"] = STRICT, 7
    counting = counting_of(world)
    await counting.cached(STOCK, {})
    world.open.clear()
    early = asyncio.create_task(counting.exact(STOCK, {}, 0))
    await settled()
    late = asyncio.create_task(counting.cached(STOCK, {}))
    await settled()
    before = world.counts
    world.open.set()
    await asyncio.gather(early, late)
    assert world.counts == before + 2


async def test_while_clickhouse_is_away_no_old_value_of_a_strict_counter_is_told(
    world: World,
) -> None:
    world.applied = STRICT
    counting = counting_of(world)
    await counting.cached(STOCK, {})
    world.error = TryAgainError("away")
    with pytest.raises(TryAgainError, match="away"):
        await counting.cached(STOCK, {})


async def test_places_of_a_batch_are_made_once_for_all_of_its_counters(world: World) -> None:
    counting = counting_of(world)
    found = await asyncio.gather(
        *(counting.exact(Asked(f"likes:{number}", None), {}, 0) for number in range(9))
    )
    assert len({id(one.places) for one in found}) == 1
