"""From when on minutes are complete."""

from pipeline.reconcile.compared import Flushed, Owner
from pipeline.reconcile.kept import kept_since_ms, logs_ms
from pipeline.reconcile.leaders_pass import next_turn, spans_to_compare
from pipeline.reconcile.reconcile import Scope
from schemas.families import Families

DAY = 86_400_000
NOW = 1_000 * DAY + 7


def kept(days: int, family_days: int | None = None) -> Families:
    families = {} if family_days is None else {"a": {"retention": {"1m": f"{family_days}d"}}}
    document = {"default": {"retention": {"1m": f"{days}d"}}, "families": families}
    return Families.model_validate(document)


def test_the_family_that_keeps_least_decides() -> None:
    assert kept_since_ms([(0, kept(30, 5))], NOW) == 995 * DAY
    assert kept_since_ms([(0, kept(5, 30))], NOW) == 995 * DAY


def test_nothing_goes_within_a_day_and_an_hour() -> None:
    assert kept_since_ms([(0, kept(1))], NOW) == 998 * DAY


def test_a_longer_retention_does_not_bring_back_what_a_shorter_one_dropped() -> None:
    history = [(0, kept(3)), (999 * DAY, kept(30))]
    assert kept_since_ms(history, NOW) == 996 * DAY
    assert kept_since_ms(history, NOW + 50 * DAY) == 1020 * DAY


def test_a_shorter_retention_counts_at_once() -> None:
    assert kept_since_ms([(0, kept(30)), (999 * DAY, kept(3))], NOW) == 997 * DAY


def test_a_grain_that_is_kept_shorter_than_minutes_is_complete_for_less_long() -> None:
    families = Families.model_validate({"default": {"retention": {"1h": "3d", "1d": "forever"}}})
    assert kept_since_ms([(0, families)], NOW) == 993 * DAY
    assert kept_since_ms([(0, families)], NOW, "1h") == 997 * DAY
    assert kept_since_ms([(0, families)], NOW, "1d") == 0


def test_a_shard_is_as_far_as_its_furthest_incarnation() -> None:
    flushed = {
        Owner("main", 0): Flushed(500, 3 * DAY),
        Owner("main~1", 0): Flushed(7, 9 * DAY),
        Owner("main", 1): Flushed(20, 8 * DAY),
        Owner("main", 2): Flushed(-1, 0),
    }
    assert logs_ms(flushed) == {0: 9 * DAY, 1: 8 * DAY}


def test_a_pass_takes_what_is_new_and_one_day_in_turn() -> None:
    scope = Scope({}, 10 * DAY + 60_000, 13 * DAY + 600_000)
    assert scope.days() == [
        (10 * DAY + 60_000, 11 * DAY),
        (11 * DAY, 12 * DAY),
        (12 * DAY, 13 * DAY),
        (13 * DAY, 13 * DAY + 600_000),
    ]
    turns = [10 * DAY, 11 * DAY, 12 * DAY, 13 * DAY, 10 * DAY]
    last = 0
    for turn in turns:
        last = next_turn(scope, last)
        assert last == turn
    recent = 13 * DAY + 540_000
    assert spans_to_compare(scope, recent, {11 * DAY}) == [
        (11 * DAY, 12 * DAY),
        (recent, 13 * DAY + 600_000),
    ]
    assert spans_to_compare(scope, recent, {13 * DAY}) == [(13 * DAY, 13 * DAY + 600_000)]


def test_before_anything_is_flushed_there_is_nothing_to_compare() -> None:
    scope = Scope({}, 995 * DAY, 60_000)
    assert scope.days() == []
    assert next_turn(scope, 0) == 0
    assert spans_to_compare(scope, 0, {0}) == []
