"""The plan as people see it: listed, in short for the status, and in lines."""

from pipeline.cli.shard import counter_lines, hinted_lines, over_sharded_lines
from pipeline.planning.hints import Hinted
from pipeline.planning.plan import Hint, OverSharded, PlanRecords, Split
from pipeline.planning.reading import ShardsNow
from pipeline.planning.recent import Load
from pipeline.reads.observed import HotCounter, PlanStatus
from pipeline.rules import CountingRules, FamilyRules
from pipeline.sharding import counter_partition

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000


def shards_now(partitions: int = 8) -> ShardsNow:
    records = PlanRecords(
        CountingRules(1, families={"fixed": FamilyRules(shards=2)}),
        {"likes:a": Split(4, 30_000.0, "rate", NOW - 5), "likes:b": Split(2, 5.0, "quiet", NOW)},
        {"likes:c": Hint(8, NOW + HOUR_MS, "expect"), "likes:over": Hint(8, NOW)},
        OverSharded({"likes:c": 8}, NOW),
    )
    load = Load({"likes:a": 31_000.04, "cold:d": 7.0, "fixed:e": 500.0}, 40_000)
    return ShardsNow(partitions, NOW, records, load)


def test_split_hinted_and_hot_counters_are_listed_the_most_sent_first() -> None:
    found = shards_now().document()
    assert [one["counter"] for one in found["counters"]] == [
        "likes:a",
        "fixed:e",
        "cold:d",
        "likes:b",
        "likes:c",
    ]
    assert found["counters"][0] == {
        "counter": "likes:a",
        "shards": 4,
        "partitions": [counter_partition("likes:a", shard, 8) for shard in range(4)],
        "rate": 31_000.0,
        "fixed": 0,
        "planned": 4,
        "why": "rate",
        "planned_at_ms": NOW - 5,
        "hint": None,
    }
    hint = {"n": 8, "until_ms": NOW + HOUR_MS, "by": "expect"}
    assert found["counters"][-1]["hint"] == hint
    assert (found["partitions"], found["over_sharded"]) == (8, {"likes:c": 8})


def test_a_counter_that_nobody_knows_has_one_shard() -> None:
    one = shards_now().of("likes:nobody")
    assert (one.shards, one.rate, one.planned, one.hint) == (1, 0.0, 1, None)
    assert one.partitions == [counter_partition("likes:nobody", 0, 8)]


def test_the_status_tells_how_many_are_split_and_which_are_hot() -> None:
    assert shards_now().status(10_000) == PlanStatus(
        split=2,
        most_split=HotCounter("likes:a", 31_000.0, 4),
        hottest=HotCounter("likes:a", 31_000.0, 4),
        capped=[],
        over_sharded={"likes:c": 8},
    )


def test_what_has_no_partition_left_is_told() -> None:
    assert shards_now(4).status(7_749).capped == [HotCounter("likes:a", 31_000.0, 4)]
    assert shards_now(4).status(7_750).capped == []
    assert shards_now(5).status(7_000).capped == []


def test_a_counter_is_explained_in_lines() -> None:
    now = shards_now(2)
    assert list(counter_lines(now.of("likes:a"), NOW))[1:] == [
        "rate         31,000 rows/s, 15,500 per shard",
        "planned      4 (rate)",
        "hint         none",
    ]
    assert list(counter_lines(now.of("likes:c"), NOW))[1:] == [
        "rate         not among the heaviest of any producer now",
        "planned      whole",
        "hint         8 for 1h (by --expect)",
    ]
    assert list(counter_lines(now.of("fixed:e"), NOW))[2] == "planned      fixed to 2 by its family"
    assert next(counter_lines(now.of("likes:\x1b"), NOW)).startswith("likes:\\x1b: 1 shard, on p")


def test_what_became_of_a_hint_is_told() -> None:
    hint = Hint(8, NOW)
    said = "likes:a: at least 8 shards until 2023-11-14T22:13:20.000Z; producers follow within"
    assert next(hinted_lines(Hinted("likes:a", hint, 8, 8))).startswith(said)
    assert len(list(hinted_lines(Hinted("likes:a", hint, 8, 8)))) == 1
    assert "only 4 partitions" in list(hinted_lines(Hinted("likes:a", hint, 4, 4)))[1]
    assert list(hinted_lines(Hinted("likes:a", hint, 16, 32)))[1] == "it has 16 already"


def test_over_sharded_counters_are_told() -> None:
    [line] = over_sharded_lines(shards_now())
    assert line.startswith("over-sharded: likes:c had next to nothing for its 8 shards")
