"""The planner under random loads: it settles, stays settled, relieves shards and comes back to one.

A simulated minute by minute world: producers report, leaders decide from the plan they have read,
their records reach the plan some passes later.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.planning.load import LoadReport
from pipeline.planning.plan import PlanRecords, Split
from pipeline.planning.planner import Planner, Thresholds

RATE_MAX = 10_000
COOL_S = 60
COUNTER = "likes:hot"
NOISE = 0.2

Curve = Callable[[int], float]

partitions = st.sampled_from([1, 2, 3, 6, 8, 12, 64, 100])
rates = st.floats(0, 40 * RATE_MAX)
seeds = st.integers(0, 2**32)


@dataclass
class World:
    """One hot counter and the leaders that plan it; `delay` is how late a leader reads the plan."""

    partitions: int
    seed: int
    leaders: int = 1
    delay: int = 0
    second: int = 0
    history: list[int] = field(default_factory=lambda: [1])
    changes: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.planners = [self.new_leader() for _ in range(self.leaders)]

    def new_leader(self) -> Planner:
        return Planner(Thresholds(RATE_MAX, 500, COOL_S * 1000))

    @property
    def shards(self) -> int:
        return self.history[-1]

    def run(self, seconds: int, curve: Curve, producers: int = 3) -> None:
        for _ in range(seconds):
            self.second += 1
            rate = curve(self.second) * self.random.uniform(1 - NOISE, 1 + NOISE)
            n = self.shards
            for planner in self.random.sample(self.planners, len(self.planners)):
                n = self.pass_of(planner, rate, producers, n)
            if n != self.shards:
                self.changes.append((self.second, n))
            self.history.append(n)

    def pass_of(self, planner: Planner, rate: float, producers: int, n: int) -> int:
        """What is in the plan after one leader's pass."""
        now_ms = 1_700_000_000_000 + self.second * 1000
        for number in range(producers):
            rows = int(rate / producers)
            counters = [(COUNTER, rows)] if rows else []
            planner.add(LoadReport(f"p{number}", 0, 1000, counters, rows), now_ms)
        seen = self.history[-1 - min(self.delay, len(self.history) - 1)]
        records = PlanRecords(splits={COUNTER: Split(seen)} if seen > 1 else {})
        changes = planner.decide(now_ms, self.partitions, records)
        if COUNTER not in changes:
            return n
        split = changes[COUNTER]
        return 1 if split is None else split.n


def constant(rate: float) -> Curve:
    return lambda _: rate


@given(
    count=partitions,
    before=rates,
    rate=rates,
    seed=seeds,
    leaders=st.integers(1, 2),
    delay=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_a_constant_rate_settles_within_seconds_and_then_hardly_changes(
    *, count: int, before: float, rate: float, seed: int, leaders: int, delay: int
) -> None:
    world = World(count, seed, leaders, delay)
    world.run(30, constant(before))
    world.run(10, constant(rate))
    # Coming down from 64 shards is six halvings, for each of which a planner that was wrong before
    # waits up to sixteen cooling times; when it has not halved for longer, it does so no more.
    for _ in range(6 * 17):
        assert rate / world.shards <= RATE_MAX / (1 - NOISE) or world.shards == count
        world.run(COOL_S, constant(rate))
        if world.second - (world.changes or [(0, 1)])[-1][0] > 17 * COOL_S:
            break
    settled = len(world.changes)
    world.run(600, constant(rate))
    assert len(world.changes) - settled <= 1


@given(partitions, st.lists(st.tuples(st.integers(1, 90), rates), max_size=8), seeds)
@settings(max_examples=60, deadline=None)
def test_whatever_the_load_was_shards_are_relieved_and_it_comes_back_to_one(
    count: int, curve: list[tuple[int, float]], seed: int
) -> None:
    world = World(count, seed)
    for seconds, rate in curve:
        world.run(2, constant(rate))
        for _ in range(seconds):
            world.run(1, constant(rate))
            assert rate / world.shards <= RATE_MAX / (1 - NOISE) or world.shards == count
    # The most patient waits sixteen cooling times for each halving, and 100 shards are halved six
    # times; the last reports are remembered for some seconds.
    for _ in range(6 * 16 + 1):
        world.run(COOL_S, constant(0))
        if world.shards == 1:
            break
    assert world.shards == 1
    world.run(3 * COOL_S, constant(0))
    assert world.shards == 1
    assert all(1 <= n <= count for n in world.history)


@given(partitions, rates, seeds, st.lists(st.integers(1, 50), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_change_of_leaders_changes_nothing(
    count: int, rate: float, seed: int, terms: list[int]
) -> None:
    world = World(count, seed)
    world.run(20, constant(rate))
    settled = len(world.changes)
    for term in terms:
        world.planners = [world.new_leader()]
        world.run(term, constant(rate))
    # A cooling time began anew with each of them, so at most one of noise is left to split.
    assert len(world.changes) - settled <= 1


class InOrder(random.Random):
    """Chooses all, as they come."""

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:  # noqa: ARG002
        return list(population)


@given(partitions, rates, seeds)
@settings(max_examples=40, deadline=None)
def test_two_leaders_plan_as_one_does(count: int, rate: float, seed: int) -> None:
    one, two = World(count, seed), World(count, seed, leaders=2)
    for world in (one, two):
        world.random = InOrder(seed)
        world.run(60, constant(rate))
        world.run(200, constant(rate / 10))
        world.run(200, constant(0))
    assert two.history == one.history


def test_a_viral_counter_is_split_by_its_load_and_merged_again() -> None:
    world = World(64, 7)
    world.run(60, constant(1_000))
    assert world.changes == []
    world.run(5, constant(100_000))
    assert world.shards == 32
    world.run(120, constant(100_000))
    assert world.shards in {16, 32}
    world.run(5 * 61 + 5, constant(1_000))
    assert world.shards == 1
    assert [n for _, n in world.changes if n < 16] == [8, 4, 2, 1]
