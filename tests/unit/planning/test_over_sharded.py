"""Who is told to have many shards for little."""

from pipeline.planning.over_sharded import LITTLE_FOR_MS, TOLD_MAX, WATCHED_MAX, OverShardedWatch
from pipeline.planning.plan import Hint, Plan
from pipeline.rules import CountingRules, FamilyRules

NOW = 1_700_000_000_000
RULES = CountingRules(1, families={"fixed": FamilyRules(shards=4), "one": FamilyRules(shards=1)})
LATER = NOW + 10**9
PLAN = Plan(
    16,
    16,
    RULES,
    {"likes:split": 8, "likes:both": 8},
    {"likes:hinted": Hint(8, LATER), "likes:both": Hint(4, LATER), "likes:one": Hint(1, LATER)},
)
LITTLE = {"fixed:a": 399.0, "one:a": 1.0, "likes:a": 1.0, "likes:split": 1.0, "likes:hinted": 799.0}


def seen(rates: list[dict[str, float]], plan: Plan = PLAN) -> list[dict[str, int]]:
    """What is told second by second."""
    watch = OverShardedWatch(10_000)
    return [watch.see(NOW + 1000 * second, plan, each) for second, each in enumerate(rates)]


def test_what_somebody_asked_for_is_told_when_it_had_little_for_ten_minutes() -> None:
    told = seen([LITTLE] * 602)
    assert not any(told[: LITTLE_FOR_MS // 1000])
    assert told[LITTLE_FOR_MS // 1000] == {"fixed:a": 4, "likes:hinted": 8}


def test_one_second_of_more_begins_anew() -> None:
    more = {**LITTLE, "fixed:a": 400.0, "likes:hinted": 800.0}
    told = seen([*[LITTLE] * 300, more, *[LITTLE] * 602])
    assert not any(told[:901])
    assert told[901] == {"fixed:a": 4, "likes:hinted": 8}


def test_a_hint_for_what_nobody_sends_is_told() -> None:
    assert seen([{}] * 601)[-1] == {"likes:hinted": 8}


def test_a_counter_of_a_fixed_family_that_nobody_sends_is_no_more_told() -> None:
    told = seen([*[{"fixed:a": 1.0}] * 601, *[{}] * 61], Plan(16, 16, RULES))
    assert told[600] == told[660] == {"fixed:a": 4}
    assert told[661] == {}


def test_nothing_is_told_where_there_is_one_partition() -> None:
    plan = Plan(1, 1, RULES, {}, PLAN.hints)
    assert not any(seen([LITTLE] * 700, plan))


def test_what_another_leader_found_is_told_at_once() -> None:
    watch = OverShardedWatch(10_000)
    watch.remember(["likes:hinted", "likes:gone"], NOW)
    assert watch.see(NOW, PLAN, {}) == {"likes:hinted": 8}


def test_only_so_many_are_watched_and_told() -> None:
    rates = {f"fixed:{n}": 1.0 for n in range(2 * WATCHED_MAX)}
    watch, plan = OverShardedWatch(10_000), Plan(16, 16, RULES)
    for minute in range(10):
        assert watch.see(NOW + minute * 60_000, plan, rates) == {}
    assert len(watch.see(NOW + LITTLE_FOR_MS, plan, rates)) == TOLD_MAX
