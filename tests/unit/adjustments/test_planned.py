"""What is there before and after each of some adjustments, and what cannot be sent. Pure parts."""

import pytest

from pipeline.adjustments.planned import completed, mistake_of
from pipeline.adjustments.values import Target, containing
from pipeline.rules import CountingRules, FamilyRules, StrictRules
from schemas.adjustments import Draft, check_draft

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
T0 = 20_000 * DAY_MS
RULES = CountingRules(1, families={"plain": FamilyRules(regions=False)})


def draft(by: int, grain: str | None = None, at_ms: int = 0, region: str = "") -> Draft:
    return check_draft(
        {
            "counter": "a:b",
            "by": by,
            "grain": grain,
            "window": at_ms if grain else None,
            "region": region,
            "who": "ann",
            "why": "so",
            "id": f"{by}-{grain}-{at_ms}-{region}",
        }
    )


def test_each_begins_where_those_before_it_in_the_same_time_ended() -> None:
    now = {Target("a:b", "", "", 0): 100, Target("a:b", "", "1d", T0): 40}
    made = completed(
        [
            draft(-10),
            draft(-3, "1h", T0 + HOUR_MS),
            draft(5, "1d", T0),
            draft(2, "1d", T0 + DAY_MS),
            draft(1, "1m", T0 + HOUR_MS),
            draft(7, "1h", T0 + HOUR_MS),
            draft(1),
        ],
        now,
        at_ms=T0,
    )
    assert [(one.before, one.after) for one in made] == [
        (100, 90),
        (0, -3),
        (37, 42),
        (0, 2),
        (0, 1),
        (-2, 5),
        (102, 103),
    ]


def test_a_region_is_in_all_regions_and_not_the_other_way_round() -> None:
    now = {Target("a:b", "", "", 0): 100, Target("a:b", "eu", "", 0): 30}
    made = completed([draft(-5, region="eu"), draft(-1), draft(1, region="eu")], now, at_ms=T0)
    assert [(one.before, one.after) for one in made] == [(30, 25), (95, 94), (25, 26)]


def test_a_value_that_64_bits_cannot_hold_is_not_told() -> None:
    [made] = completed([draft(2**63 - 1)], {Target("a:b", "", "", 0): 1}, at_ms=T0)
    assert (made.before, made.after) == (1, None)


def test_a_minute_changes_its_hour_its_day_and_the_total_and_a_total_itself_alone() -> None:
    at_ms = T0 + HOUR_MS + 60_000
    assert {(one.grain, one.at_ms) for one in containing(draft(1, "1m", at_ms))} == {
        ("1m", at_ms),
        ("1h", T0 + HOUR_MS),
        ("1d", T0),
        ("", 0),
    }
    assert [*containing(draft(1))] == [("a:b", "", "", 0)]


def test_an_id_with_other_contents_is_a_mistake_and_with_the_same_none() -> None:
    one = draft(-17)
    assert mistake_of(one, one.contents, RULES, T0) is None
    assert mistake_of(one, draft(-18).contents, RULES, T0) == (
        "id: -17-None-0- of a:b is stored with other contents; give another id"
    )


@pytest.mark.parametrize(("ahead_ms", "is_bad"), [(0, False), (300_000, False), (360_000, True)])
def test_a_window_that_has_not_begun_is_a_mistake(ahead_ms: int, is_bad: bool) -> None:
    found = mistake_of(draft(1, "1m", T0 + ahead_ms), None, RULES, T0)
    assert found == ("window: it has not begun yet" if is_bad else None)


def test_a_region_of_a_family_without_regions_is_a_mistake() -> None:
    plain = draft(1, region="eu").model_copy(update={"counter": "plain:x"})
    assert mistake_of(plain, None, RULES, T0) == "region: the rules of its family keep no regions"
    assert mistake_of(draft(1, region="eu"), None, RULES, T0) is None


def test_a_counter_of_a_strict_family_is_a_mistake() -> None:
    rules = CountingRules(families={"plain": FamilyRules(strict=StrictRules())})
    strict = draft(1).model_copy(update={"counter": "plain:x"})
    assert (mistake_of(strict, None, rules, T0) or "").startswith("counter: its family is strict")
