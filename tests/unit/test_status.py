"""What status makes of what Kafka and ClickHouse say: a test for each of its sentences."""

from dataclasses import replace
from typing import Any

from pipeline.reads.health import (
    AHEAD_MS_MAX,
    BEHIND_MS_MAX,
    CHECKPOINT_AGE_MS_MAX,
    ROLLUP_AGE_MS_MAX,
    TRENDS_BEHIND_MS_MAX,
    Status,
    judge,
)
from pipeline.reads.observed import (
    Freshness,
    HotCounter,
    Letters,
    Observed,
    PlanStatus,
    Reconciliation,
    Spill,
)
from pipeline.reads.reads import FlushedShard

NOW = 1_760_000_000_000
FRESH = Freshness(60, 700, 1_500)


def flushed(
    shard: int,
    through: int,
    age_ms: int = 1_000,
    *,
    checkpointed: bool = True,
    log_ms: int = NOW,
    rules_version: int = 0,
) -> FlushedShard:
    at_ms = NOW - age_ms
    checkpointed_ms = at_ms if checkpointed else 0
    return FlushedShard(shard, through, at_ms, through, checkpointed_ms, log_ms, rules_version)


def observed(ends: dict[int, int], *shards: FlushedShard, **more: Any) -> Observed:
    """Everything as it should be, but for what is said."""
    known: dict[str, Any] = {
        "freshness": FRESH,
        "rolled_log_ms": dict.fromkeys(ends, NOW - 30_000),
        "trends_until_ms": NOW - 90_000,
        "build_declared_ms": NOW - 10 * ROLLUP_AGE_MS_MAX,
    }
    return Observed(NOW, ends, {shard.shard: shard for shard in shards}, **{**known, **more})


def one(**more: Any) -> Status:
    """The judgement on a single shard that has no lag."""
    return judge(observed({0: 10}, flushed(0, 9), **more))


def test_a_shard_that_is_flushed_to_the_end_has_no_lag_and_is_healthy() -> None:
    status = judge(observed({0: 10, 1: 0}, flushed(0, 9), flushed(1, -1)))
    assert status.healthy
    assert status.remarks == []
    assert [shard.lag for shard in status.shards] == [0, 0]


def test_lag_is_what_the_log_has_beyond_the_flushed_offset() -> None:
    status = judge(observed({0: 10, 1: 10}, flushed(0, 4), flushed(1, 9)))
    assert [shard.lag for shard in status.shards] == [5, 0]
    assert status.lag is not None
    assert (status.lag.mean, status.lag.greatest, status.lag.shard) == (2.5, 5, 0)


def test_a_shard_no_worker_ever_counted_is_named() -> None:
    status = judge(observed({0: 3, 1: 3}, flushed(0, 2)))
    assert status.problems == ["no worker has checkpointed shard 1 yet; is one running?"]
    assert status.shards[1].lag == 3


def test_a_shard_whose_checkpoint_is_old_is_unhealthy_even_if_it_has_no_lag() -> None:
    status = judge(observed({0: 10}, flushed(0, 9, CHECKPOINT_AGE_MS_MAX + 1)))
    assert not status.healthy
    assert "shard 0 not checkpointed for up to 30 s" in status.problems[0]
    assert judge(observed({0: 10}, flushed(0, 9, CHECKPOINT_AGE_MS_MAX))).healthy


def test_a_topic_that_does_not_exist_is_a_problem_and_not_health() -> None:
    assert judge(observed({})).problems == [
        "topic tally.increments does not exist; start a worker to make it"
    ]


def test_a_clock_that_is_behind_gives_no_negative_age() -> None:
    status = judge(observed({0: 1}, flushed(0, 0, -5_000)))
    assert status.shards[0].checkpoint_age_ms == 0


def test_a_refusal_is_told_until_the_shard_is_checkpointed_again() -> None:
    assert one(refusals={0: (NOW - 500, "do this")}).problems == [
        "shard 0 is not counted on: do this"
    ]
    assert one(refusals={0: (NOW - 5_000, "do this")}).healthy


def test_a_shard_that_counts_old_records_is_unhealthy_while_it_lags() -> None:
    old_ms = NOW - BEHIND_MS_MAX - 10_000
    status = judge(observed({0: 10}, flushed(0, 4, log_ms=old_ms)))
    [wrong] = status.problems
    assert wrong.startswith("shard 0 up to 70 s behind the log; if that grows, start more workers")
    assert judge(observed({0: 10}, flushed(0, 9, log_ms=old_ms))).healthy, "it is only idle"
    assert judge(observed({0: 10}, flushed(0, 4, log_ms=NOW - BEHIND_MS_MAX))).healthy
    assert judge(observed({0: 10}, flushed(0, -1, log_ms=0))).healthy, "it has not begun"


def test_a_stuck_shard_is_not_called_behind_as_well() -> None:
    old_ms = NOW - 10 * BEHIND_MS_MAX
    status = judge(observed({0: 10}, flushed(0, 4, 10 * BEHIND_MS_MAX, log_ms=old_ms)))
    assert len(status.problems) == 1


def test_log_time_ahead_of_the_clock_is_remarked_and_a_problem_past_lateness() -> None:
    def ahead(by_ms: int) -> Status:
        shard = flushed(0, 9, log_ms=NOW + by_ms)
        more = {"lateness_ms_min": 7_200_000, "trends_until_ms": NOW + by_ms}
        return judge(observed({0: 10}, shard, **more))

    assert ahead(AHEAD_MS_MAX).remarks == []
    [said] = ahead(3_600_000).remarks
    assert said.startswith("log time of shard 0 is 1h ahead of the clock")
    assert ahead(3_600_000).healthy
    [wrong] = ahead(7_200_000).problems
    assert "2h ahead of the clock, so that events of now are refused as too late" in wrong
    assert ahead(7_200_000).remarks == []


def test_shards_that_differ_in_rules_for_long_are_a_problem() -> None:
    def differing(applied_ms: dict[int, int]) -> Status:
        shards = flushed(0, 9, rules_version=7), flushed(1, 9, rules_version=6)
        return judge(observed({0: 10, 1: 10}, *shards, rules_applied_ms=applied_ms))

    [wrong] = differing({6: 1, 7: NOW - 61_000}).problems
    assert wrong.startswith("shard 1 not counted by the rules that others follow (version 7)")
    assert differing({6: 1, 7: NOW - 5_000}).healthy
    [said] = differing({6: 1}).remarks
    assert said.startswith("rules version 7 may not be in every partition")


def test_freshness_is_told_by_all_and_by_the_worst_shard() -> None:
    by_shard = {0: Freshness(9, 500, 900), 1: Freshness(9, 600, 1_700)}
    found = observed({0: 1, 1: 1}, flushed(0, 0), flushed(1, 0), shard_freshness=by_shard)
    status = judge(found)
    assert status.freshness == FRESH
    assert status.freshness_p99_ms is not None
    worst = status.freshness_p99_ms
    assert (worst.mean, worst.greatest, worst.shard) == (1_300, 1_700, 1)
    slow = judge(replace(found, freshness=Freshness(60, 900, 2_400)))
    assert slow.remarks == [
        "one count in a hundred took 2.4 s or longer to be visible; are the machines busy?"
    ]
    assert slow.healthy


def test_missing_heartbeats_are_remarked_unless_they_are_rare_by_setting() -> None:
    [said] = one(freshness=None).remarks
    assert said.startswith("no heartbeat was counted")
    assert one(freshness=None, heartbeat_interval_ms=120_000).remarks == []


def test_dead_letters_of_the_last_hour_are_a_remark() -> None:
    status = one(letters=Letters(2_000, 1_234, "at: too late"))
    assert status.remarks == [
        "1,234 events were refused in the last hour, most as: at: too late; see tally dead-letters"
    ]
    assert status.healthy
    assert one(letters=Letters(2_000, 0, "at: too late")).remarks == []


def test_families_whose_rollup_is_late_are_named() -> None:
    status = one(rollup_ages_ms={"likes": 181_000, "": 180_500, "views": 180_000})
    [said] = status.remarks
    assert said.startswith("rollups of families likes, those that no rule names are late")
    assert status.late_rollups == {"likes": 181_000, "": 180_500}
    assert status.rollup_age_ms_max == 181_000


def test_many_late_families_are_not_all_named() -> None:
    [said] = one(rollup_ages_ms={f"f{n}": 999_999 for n in range(14)}).remarks
    assert "f9 and 4 more are late" in said


def test_no_rollup_for_an_hour_is_a_problem_also_if_there_never_was_one() -> None:
    [wrong] = one(rolled_log_ms={0: NOW - 2 * ROLLUP_AGE_MS_MAX}).problems
    assert wrong.startswith("hours and days were not rolled up for 2h")
    assert one(rolled_log_ms={0: NOW - ROLLUP_AGE_MS_MAX}).healthy
    assert not one(rolled_log_ms={}).healthy
    assert one(rolled_log_ms={}, build_declared_ms=NOW - 60_000).healthy


def test_trends_that_are_far_behind_what_is_flushed_are_a_remark() -> None:
    far_ms = NOW - TRENDS_BEHIND_MS_MAX
    assert one(trends_until_ms=far_ms).remarks == []
    status = one(trends_until_ms=far_ms - 1_000)
    assert status.healthy
    [said] = status.remarks
    assert said.startswith("trends were not scored for 10m of log time")
    assert status.document()["trends_behind_ms"] == 601_000
    assert one(trends_until_ms=far_ms - 1_000, trends_interval_ms=600_000).remarks == []


def test_trends_that_were_never_scored_are_missed_only_after_a_while() -> None:
    new = one(trends_until_ms=0, build_declared_ms=NOW - TRENDS_BEHIND_MS_MAX, rolled_log_ms={})
    assert (new.remarks, new.trends_behind_ms) == ([], None)
    [said] = one(trends_until_ms=0).remarks
    assert said.startswith("trends were not scored for 10h of log time")


def test_trends_are_not_missed_while_nothing_is_flushed() -> None:
    old_ms, hour_ms = NOW - 7_200_000, 3_600_000
    lagging = flushed(0, 9, log_ms=old_ms + 60_000), flushed(1, 9)
    found = judge(observed({0: 10, 1: 10}, *lagging, trends_until_ms=old_ms))
    assert (found.remarks, found.trends_behind_ms) == ([], 60_000)
    away = judge(observed({0: 10}, flushed(0, 9, hour_ms), trends_until_ms=old_ms))
    assert away.remarks == []
    unknown = judge(observed({0: 10, 1: 10}, flushed(0, 9), trends_until_ms=old_ms))
    assert (unknown.remarks, unknown.trends_behind_ms) == ([], None)


def test_a_capped_family_is_a_remark_with_what_to_do() -> None:
    status = one(spills=[Spill("likes", "likes:", 1_500)])
    assert status.healthy
    [said] = status.remarks
    assert said.startswith("family likes had more counters than its cap allows: 1,500 of the")
    assert "raise cells_max" in said
    assert status.document()["capped"] == [
        {"family": "likes", "counter": "likes:", "amount": 1_500}
    ]


def test_counters_that_no_partition_is_left_for_are_remarked() -> None:
    plan = PlanStatus(capped=[HotCounter("likes:a", 64_000.0, 4)])
    [remark] = one(plan=plan).remarks
    assert remark.startswith("likes:a has 16,000 rows a second for each of its 4 shards")
    assert remark.endswith("run tally partitions 8")


def test_over_sharded_counters_are_remarked_with_what_to_do() -> None:
    plan = PlanStatus(over_sharded={f"likes:{n:02}": 8 for n in range(12)})
    found = one(plan=plan)
    assert "likes:09 and 2 more" in found.remarks[0]
    assert found.healthy
    assert found.document()["shard_plan"]["over_sharded"]["likes:11"] == 8


def test_a_plan_that_cannot_be_read_is_remarked() -> None:
    assert one(plan=PlanStatus(unreadable="a newer Tally")).remarks == ["a newer Tally"]


def test_differences_between_log_and_clickhouse_are_a_problem_while_they_stand() -> None:
    standing = Reconciliation({0: 9}, 3, "2026-11-16T10:00:00.000Z", "shard 0, p: ledger 7")
    status = one(reconciled=standing)
    assert status.problems == [
        (
            "log and ClickHouse differ in 3 numbers, such as shard 0, p: ledger 7; tally verify "
            "has all of them; count the log again with tally replay, then tally replay --check and "
            "--swap"
        )
    ]
    assert status.document()["reconciled"]["through"] == {0: 9}
    assert one(reconciled=replace(standing, differences=0, example=None)).healthy
