"""What the planner decides, moment by moment."""

from typing import Any

import pytest

from pipeline.planning import planner
from pipeline.planning.load import LoadReport
from pipeline.planning.needed import shards_for
from pipeline.planning.plan import Hint, PlanRecords, Split
from pipeline.planning.planner import COUNTERS_MAX, Planner, Thresholds
from pipeline.planning.recent import PRODUCERS_MAX
from pipeline.rules import CountingRules, FamilyRules
from pipeline.sharding import counter_partition

NOW = 1_700_000_000_000
RATE_MAX = 10_000
COOL_MS = 60_000
PARTITIONS = 64
RULES = CountingRules(1, families={"fixed": FamilyRules(shards=4)})
HOT = "likes:hot"


def report(rates: dict[str, int], producer: str = "one", **more: Any) -> LoadReport:
    """A second of a producer."""
    fields = {"rows": sum(rates.values()), "interval_ms": 1000, **more}
    counters = sorted(rates.items(), key=lambda pair: -pair[1])
    return LoadReport(producer=producer, at_ms=NOW, counters=counters, **fields)


class World:
    """A planner, its plan, and time that passes a second at a time."""

    def __init__(self, **splits: int) -> None:
        self.now_ms = NOW
        self.partitions = PARTITIONS
        self.planner = Planner(Thresholds(RATE_MAX, 500, COOL_MS))
        self.records = PlanRecords(rules=RULES)
        self.records.splits = {f"likes:{name}": Split(n) for name, n in splits.items()}

    def second(self, *reports: LoadReport) -> dict[str, Split | None]:
        """Reports come, a pass decides, and what it changed is in the plan."""
        self.now_ms += 1000
        for each in reports:
            self.planner.add(each, self.now_ms)
        changes = self.planner.decide(self.now_ms, self.partitions, self.records)
        for counter, split in changes.items():
            self.records.splits.pop(counter, None)
            if split is not None:
                self.records.splits[counter] = split
        return changes

    def shards(self, counter: str = HOT) -> int:
        split = self.records.splits.get(counter)
        return 1 if split is None else split.n


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(0, 1), (5_000, 1), (10_000, 1), (10_001, 4), (20_000, 4), (20_001, 8), (640_000, 128)],
)
def test_a_rate_needs_the_power_of_two_that_leaves_each_shard_half_free(
    rate: float, expected: int
) -> None:
    assert shards_for(rate, RATE_MAX) == expected


def test_no_rate_needs_more_shards_than_there_may_be_partitions() -> None:
    assert shards_for(1e300, 1) == 4096


def test_a_hot_counter_is_split_at_once_as_far_as_needed() -> None:
    world = World()
    assert world.second(report({HOT: 100_000, "likes:cold": 9_999})) == {
        HOT: Split(32, 100_000.0, "rate", world.now_ms)
    }
    assert world.second(report({HOT: 100_000})) == {}


def test_a_rate_is_summed_over_producers_and_told_by_the_second() -> None:
    world = World()
    slow = report({HOT: 12_000}, "two", interval_ms=2000)
    assert world.second(report({HOT: 5_000}), slow)[HOT] == Split(4, 11_000, "rate", world.now_ms)


def test_a_short_interval_is_no_sign_of_a_high_rate() -> None:
    assert World().second(report({HOT: 400}, interval_ms=10)) == {}


def test_only_a_producers_last_report_counts() -> None:
    world = World()
    assert world.second(report({HOT: 90_000}), report({HOT: 9_000})) == {}


def test_a_producer_that_fell_silent_is_forgotten() -> None:
    world = World()
    world.second(report({HOT: 9_000}))
    for _ in range(5):
        assert world.second() == {}
    assert world.planner.load(world.now_ms).rates == {HOT: 9_000}
    world.second()
    assert world.planner.load(world.now_ms).rates == {}


def test_there_are_never_more_shards_than_partitions() -> None:
    world = World()
    world.partitions = 6
    world.second(report({HOT: 10_000_000}))
    assert world.shards() == 6
    assert world.second(report({HOT: 10_000_000})) == {}


def test_a_fixed_family_is_left_alone_and_its_old_splits_are_taken_back() -> None:
    world = World()
    world.records.splits = {"fixed:old": Split(8)}
    assert world.second(report({"fixed:hot": 10**6, "fixed:old": 10**6})) == {"fixed:old": None}


def test_a_quiet_counter_is_halved_once_per_cooling_time_down_to_one() -> None:
    world = World(hot=8)
    changed = [(s, world.shards()) for s in range(200) if world.second(report({HOT: 100}))]
    assert changed == [(60, 4), (121, 2), (182, 1)]
    assert world.records.splits == {}


def test_a_counter_that_nobody_reports_is_quiet() -> None:
    world = World(hot=2)
    seconds = [second for second in range(100) if world.second()]
    assert (seconds, world.shards()) == ([60], 1)


def test_one_warm_second_begins_the_cooling_anew() -> None:
    world = World(hot=2)
    for second in range(100):
        assert not world.second(report({HOT: 5_000 if second == 50 else 100}))


def test_shards_of_three_quarters_are_neither_split_nor_merged() -> None:
    world = World(hot=4)
    for _ in range(300):
        assert not world.second(report({HOT: 30_000}))


def test_a_hint_is_counted_with_and_not_gone_below() -> None:
    world = World(hot=8)
    world.records.hints = {
        HOT: Hint(6, NOW + 10**9),
        "likes:hinted": Hint(16, NOW + 10**9),
        "likes:over": Hint(16, NOW),
    }
    rates = {"likes:hinted": 150_000, "likes:over": 150_000}
    assert world.second(report(rates)).keys() == {"likes:over"}
    for _ in range(300):
        world.second(report(rates))
    assert world.shards() == 6
    world.second(report({"likes:hinted": 170_000}))
    assert world.shards("likes:hinted") == 64


def heavy(**more: Any) -> LoadReport:
    """A counter well below the threshold that makes up a quarter of all rows."""
    return report({HOT: 2_000}, rows=8_000, **more)


def where(shard: int) -> int:
    return counter_partition(HOT, shard, PARTITIONS)


def test_a_heavy_counter_on_a_slow_partition_is_doubled_every_ten_seconds() -> None:
    world = World()
    slow = {where(0): 501.0}
    changed = [
        (second, world.shards())
        for second in range(32)
        if world.second(heavy(delivery_p99_ms=slow))
    ]
    assert changed == [(0, 2), (11, 4), (22, 8)]
    assert world.records.splits[HOT].why == "delivery"


def test_retries_count_as_a_slow_partition() -> None:
    world = World()
    world.second(heavy(retries=1))
    assert world.records.splits[HOT] == Split(2, 2_000, "retries", world.now_ms)


@pytest.mark.parametrize(
    "harmless",
    [
        heavy(delivery_p99_ms={where(0): 500.0}),
        heavy(delivery_p99_ms={where(1): 900.0}),
        report({HOT: 2_000}, rows=10_001, retries=3),
        report({HOT: 499}, rows=499, retries=3, delivery_p99_ms={where(0): 900.0}),
    ],
    ids=["fast enough", "elsewhere", "no great share", "trivial"],
)
def test_slow_deliveries_that_are_not_the_counters_doing_do_not_split_it(
    harmless: LoadReport,
) -> None:
    assert World().second(harmless) == {}


def test_a_counter_is_not_merged_while_its_partitions_are_slow() -> None:
    world = World(hot=PARTITIONS)
    for _ in range(200):
        assert not world.second(heavy(delivery_p99_ms={where(5): 600.0}))


def test_whoever_merged_too_soon_waits_longer_the_next_time() -> None:
    """Deliveries are slow whenever the counter has one shard, and fast with two."""
    world, changed = World(), []
    for second in range(1500):
        slow = {where(0): 900.0} if world.shards() == 1 else {}
        if world.second(heavy(delivery_p99_ms=slow)):
            changed.append((second, world.shards()))
    merged = [second for second, n in changed if n == 1]
    split = [second for second, n in changed if n == 2]
    assert [after - before for before, after in zip(split, merged, strict=False)] == [
        61,
        121,
        241,
        481,
    ]


def test_the_heaviest_counters_get_the_places_there_are() -> None:
    world = World(**{f"other-{n}": 2 for n in range(COUNTERS_MAX - 1)})
    warm = {f"likes:other-{n}": 10_000 for n in range(COUNTERS_MAX - 1)}
    reports = [
        report(dict(list(warm.items())[start : start + 100]), f"p{start}")
        for start in range(0, len(warm), 100)
    ]
    changes = world.second(*reports, report({HOT: 20_000, "likes:second": 19_000}, "new"))
    assert changes.keys() == {HOT}
    assert not world.second(*reports, report({HOT: 20_000, "likes:second": 19_000}, "new"))


def test_only_so_many_counters_that_are_whole_again_are_remembered_those_split_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if others change the plan as often as they can."""
    monkeypatch.setattr(planner, "WHOLE_MAX", 4)
    world = World()
    for turn in range(20):
        world.records.splits = {f"likes:{turn}-{n}": Split(2) for n in range(2)}
        world.second()
        assert len(world.planner._watched) <= 4 + 2
    assert [*world.planner._watched] == [
        f"likes:{turn}-{n}" for turn in (17, 18, 19) for n in (0, 1)
    ]


def test_reports_of_too_many_producers_are_passed_over() -> None:
    world = World()
    world.second(*(report({HOT: 9}, f"p{n}") for n in range(PRODUCERS_MAX + 50)))
    assert world.planner.load(world.now_ms).rates == {HOT: 9 * PRODUCERS_MAX}


def test_what_did_not_get_into_the_log_is_decided_again() -> None:
    world = World()
    planner, records = world.planner, world.records
    planner.add(report({HOT: 20_000}), NOW)
    first = planner.decide(NOW, PARTITIONS, records)
    assert first.keys() == {HOT}
    assert planner.decide(NOW, PARTITIONS, records) == first


def test_a_clock_that_is_set_back_delays_merging_by_one_cooling_time_only() -> None:
    world = World(hot=2)
    world.second(report({HOT: 9_000}))
    world.now_ms -= 86_400_000
    for _ in range(COOL_MS // 1000 + 5):
        world.second()

    assert world.shards() == 1
