import numpy as np
import pytest

from pipeline.trends.candidates import Candidates
from pipeline.trends.members import UNIQUES_ERROR, Extra, Members, extra_members
from pipeline.trends.score import score
from tests.unit.trends.streams import recent

NAN = float("nan")


def extra(
    minutes: list[int], excess: float, uniques: float, per_member: float, span: int = 90
) -> tuple[float, float]:
    """How many members beyond the usual, and how many times the usual events of each."""
    members = Members(np.array([uniques]), np.array([per_member]), span)
    found = extra_members(members, recent([minutes]).minutes, np.array([excess]))
    return float(found.members[0]), float(found.times[0])


def test_members_beyond_those_of_the_expected_events_are_extra() -> None:
    # 90 minutes of 4, and 400 more in the last: 360 ordinary events are 180 members' of two each.
    minutes = [4] * 119 + [404]
    many = 200 + UNIQUES_ERROR * 380
    assert extra(minutes, 400.0, 380, 2.0) == pytest.approx((many, 400 / many / 2))
    few = 3 + UNIQUES_ERROR * 183
    assert extra(minutes, 400.0, 183, 2.0) == pytest.approx((few, 400 / few / 2))


def test_only_the_minutes_that_the_members_are_of_are_looked_at() -> None:
    given = [10**6] * 59 + [1] * 61
    assert extra(given, 0.0, 61.0, 1.0, span=61) == pytest.approx((UNIQUES_ERROR * 61, 0.0))


def test_whose_usual_is_unknown_is_taken_as_the_median_of_the_others() -> None:
    members = Members(np.full(4, 100.0), np.array([NAN, 1.0, 2.0, 5.0]), 90)
    found = extra_members(members, recent([[1] * 120] * 4).minutes, np.zeros(4))
    usual = [45, 90, 45, 18]
    assert found.members.tolist() == pytest.approx([100 - one + 3 for one in usual])


@pytest.mark.parametrize("unknown", [NAN, 0.0])
def test_where_no_usual_is_known_all_are_extra_and_may_do_what_they_like(unknown: float) -> None:
    members, times = extra([4] * 120, 10.0, 50.0, unknown)
    assert members == pytest.approx(50 * (1 + UNIQUES_ERROR))
    assert np.isnan(times)


@pytest.mark.parametrize("unknown", [NAN, 0.0])
def test_where_no_member_is_known_nothing_is_known(unknown: float) -> None:
    assert np.isnan(extra([4] * 120, 10.0, unknown, 2.0)).all()


def test_a_score_is_told_with_the_members_beyond_the_usual_ones() -> None:
    given = recent([[2] * 119 + [60]], days=[[120, 120]])
    members = Members(np.array([150.0]), np.array([1.25]), 80)
    whole = Candidates(given.counters, given.minutes, given.days, 120, given.known_days, members)
    found = score(whole).extra
    assert isinstance(found, Extra)
    # 218 events in 80 minutes, 58 of them beyond the expected 2: 160 are of 128 members.
    assert found.members.tolist() == pytest.approx([150 - 128 + UNIQUES_ERROR * 150])
    assert score(given).extra is None


@pytest.mark.parametrize("span", [60, 121])
def test_members_of_another_span_are_refused(span: int) -> None:
    with pytest.raises(ValueError, match="minutes"):
        Members(np.ones(1), np.ones(1), span)
