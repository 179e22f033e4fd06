"""From when on a log whose beginning was deleted can be counted exactly."""

import pytest

from pipeline.builds.horizon import DAY_MS, PartitionLog, counts_from_ms, longest_horizon_ms
from pipeline.errors import OperatorError, ShardRefusedError
from pipeline.rules import CountingRules, FamilyRules
from pipeline.takeover import Beginning

HOUR_MS = 3_600_000
DAY_7 = 7 * DAY_MS


def test_a_complete_log_is_counted_from_its_beginning() -> None:
    assert counts_from_ms([PartitionLog(0, 0, 100), PartitionLog(1, 0, 0)], HOUR_MS) == 0


def test_it_counts_from_the_midnight_after_rules_and_one_horizon_of_ids_in_every_partition() -> (
    None
):
    early = PartitionLog(0, 50, 100, DAY_7 + HOUR_MS)
    late = PartitionLog(1, 50, 100, DAY_7 + 3 * HOUR_MS)
    complete = PartitionLog(2, 0, 100)
    assert counts_from_ms([early, complete], 2 * HOUR_MS) == 8 * DAY_MS
    assert counts_from_ms([early, late, complete], 22 * HOUR_MS) == 9 * DAY_MS


def test_an_id_of_exactly_one_horizon_ago_may_be_one_that_was_deleted() -> None:
    log = [PartitionLog(0, 50, 100, DAY_7)]
    assert counts_from_ms(log, DAY_MS - 1) == 8 * DAY_MS
    assert counts_from_ms(log, DAY_MS) == 9 * DAY_MS


def test_after_another_log_it_counts_from_the_day_by_which_nobody_knows_an_id_of_that() -> None:
    """The live build knows them until then: whoever sends one again sends a duplicate."""
    assert counts_from_ms([PartitionLog(0, 0, 100)], HOUR_MS, DAY_7 + 5) == 8 * DAY_MS
    assert counts_from_ms([PartitionLog(0, 0, 100)], DAY_MS, DAY_7 + 5) == 9 * DAY_MS
    trimmed = PartitionLog(0, 9, 100, DAY_7 - 20 * HOUR_MS)
    assert counts_from_ms([trimmed], HOUR_MS, DAY_7 + 5) == 8 * DAY_MS


def test_a_partition_without_rules_is_refused() -> None:
    with pytest.raises(OperatorError, match="partition 3 has no rules between offsets 50 and 100"):
        counts_from_ms([PartitionLog(3, 50, 100, None)], HOUR_MS)


def test_what_is_gone_matters_while_its_ids_are_known_or_it_may_be_retried() -> None:
    short = FamilyRules(lateness_ms=5, ids_horizon_ms=7)
    ids = FamilyRules(lateness_ms=1, ids_horizon_ms=20)
    late = FamilyRules(lateness_ms=30, ids_horizon_ms=1)
    assert longest_horizon_ms([CountingRules(default=short)]) == 7
    assert longest_horizon_ms([CountingRules(default=short, families={"a": ids})]) == 20
    assert (
        longest_horizon_ms(
            [CountingRules(default=ids), CountingRules(default=short, families={"a": late})]
        )
        == 30
    )


def test_a_build_whose_log_was_trimmed_before_it_began_is_refused() -> None:
    beginning = Beginning(starts=(0, 100))
    beginning.check(0, 0)
    beginning.check(1, 100)
    beginning.check(2, 5)  # a partition that was added since
    with pytest.raises(ShardRefusedError, match="tally replay --new"):
        beginning.check(0, 1)
