"""What is to be applied, given what is known of rules: in the log, in ClickHouse, in a file."""

import pytest

from pipeline.control.apply_rules import next_version, what_to_apply
from pipeline.control.known_rules import AppliedRules, KnownRules
from pipeline.control.rules_diff import Difference, differences, in_one_line, settings_of
from pipeline.control.shard_plan import id_partitions, is_missing, producers_id_partitions
from pipeline.errors import OperatorError
from pipeline.rules import VERSION_MAX, CountingRules, FamilyRules

OLD = CountingRules(1, id_partitions=8)
NEW = CountingRules(2, FamilyRules(lateness_ms=7_200_000), id_partitions=8)
NOTHING = KnownRules(None, None, {}, 0)


def known(
    applied: CountingRules | None, planned: CountingRules | None, counted: int = 0
) -> KnownRules:
    versions = [rules.version for rules in (applied, planned) if rules is not None]
    return KnownRules(
        AppliedRules(applied, 0, "") if applied else None,
        planned,
        {0: counted},
        max([counted, *versions]),
    )


def missing(state: KnownRules, wanted: CountingRules | None, *, overrule: bool = False) -> object:
    return what_to_apply(state, wanted, overrule=overrule, file="tally.toml")


def test_where_nobody_applied_any_the_files_are_applied_or_else_the_defaults() -> None:
    assert missing(NOTHING, NEW) == NEW
    assert missing(NOTHING, None) == CountingRules()


def test_where_file_and_log_agree_nothing_is_applied() -> None:
    assert missing(known(OLD, OLD, 1), CountingRules()) is None
    assert missing(known(OLD, OLD, 1), None) is None


def test_a_file_that_differs_is_refused_unless_it_may_overrule() -> None:
    with pytest.raises(OperatorError, match=r"default\.lateness: 1d -> 2h.*tally rules apply"):
        missing(known(OLD, OLD), NEW)
    assert missing(known(OLD, OLD), NEW, overrule=True) == NEW


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (known(OLD, NEW), "a first applier was cut short after the plan"),
        (known(None, NEW), "ClickHouse was made anew"),
        (known(NEW, None), "the log was made anew"),
        (KnownRules(AppliedRules(NEW, 0, ""), NEW, {}, 3), "a shard counts by later rules"),
    ],
)
def test_what_was_not_finished_everywhere_is_applied_again(state: KnownRules, why: str) -> None:
    assert missing(state, None) == NEW, why
    assert not state.is_whole


def test_a_plan_that_lost_a_race_does_not_matter() -> None:
    state = known(NEW, OLD)
    assert state.newest == NEW
    assert state.is_whole


def test_a_version_is_the_time_or_above_any_that_was_seen_and_never_one_that_is_refused() -> None:
    assert next_version(known(OLD, OLD), 1_760_000_000_000) == 1_760_000_000_000
    assert next_version(KnownRules(None, None, {}, VERSION_MAX - 1), 5) == VERSION_MAX
    # Rules that nobody asked for give way to any that somebody applies at the same moment.
    assert next_version(KnownRules(None, None, {}, 0), 0) == 1
    for seen, now_ms in ((VERSION_MAX, 5), (5, VERSION_MAX + 1)):
        with pytest.raises(OperatorError, match="clock right"):
            next_version(KnownRules(None, None, {}, seen), now_ms)


def test_a_producer_without_a_plan_routes_no_ids_in_a_log_that_has_records() -> None:
    assert producers_id_partitions(None, 5, lambda: False) == 5
    assert producers_id_partitions(OLD, 12, lambda: True) == 8
    with pytest.raises(OperatorError, match="start a worker"):
        producers_id_partitions(None, 5, lambda: True)


def test_a_plan_gets_the_rules_that_it_lacks_and_never_older_ones_or_another_routing() -> None:
    assert is_missing(None, OLD)
    assert is_missing(OLD, NEW)
    assert not is_missing(NEW, OLD)
    assert not is_missing(OLD, OLD)
    assert not is_missing(None, CountingRules(1))
    assert not is_missing(OLD, CountingRules(2, id_partitions=9))


def test_shards_that_count_by_older_rules_or_by_none_are_told() -> None:
    state = KnownRules(AppliedRules(NEW, 0, ""), NEW, {0: 2, 1: 1, 3: 5}, 5)
    assert state.shards_not_at(2, 4) == [1, 2]


def test_ids_are_routed_by_the_number_of_partitions_that_was_fixed_first() -> None:
    assert id_partitions(None, 8) == 8
    assert id_partitions(CountingRules(), 8) == 8
    assert id_partitions(OLD, 12) == 8
    assert id_partitions(OLD, 4) == 4


def test_differences_are_told_in_the_words_of_the_file() -> None:
    before = CountingRules(families={"a": FamilyRules(shards=4), "gone": FamilyRules(cells_max=5)})
    after = CountingRules(
        families={"a": FamilyRules(regions=False), "b": FamilyRules()}, ids_limit=9
    )
    assert differences(before, after) == [
        Difference("ids_per_partition", "1000000", "9"),
        Difference("families.a.regions", "true", "false"),
        Difference("families.a.shards", "4", "adaptive"),
        Difference("families.b", "not named", "named"),
        Difference("families.gone", "named", "not named"),
        Difference("families.gone.cells_max", "5", "1000000"),
    ]
    assert differences(before, before) == []


def test_many_differences_are_cut_to_one_line() -> None:
    found = [Difference(str(n), "a", "b") for n in range(5)]
    assert in_one_line(found) == "0: a -> b; 1: a -> b; 2: a -> b; and 2 more"
    assert in_one_line(found[:1]) == "0: a -> b"


def test_rules_are_shown_with_every_setting() -> None:
    shown = settings_of(CountingRules(families={"a": FamilyRules(lateness_ms=90_000)}))
    assert shown["default.lateness"] == "1d"
    assert shown["families.a.lateness"] == "90s"
    assert len(shown) == 1 + 23 + 23
