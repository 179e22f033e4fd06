import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.trends.candidates import HOUR_MINUTES
from pipeline.trends.expected import Expected, expected, level
from tests.unit.trends.streams import recent

thorough = settings(max_examples=100, deadline=None, print_blob=True)

STEADY = [3] * 120


def of(minutes: list[int], days: list[int] | None = None, known_minutes: int = 120) -> Expected:
    candidates = recent([minutes], None if days is None else [days], known_minutes)
    return expected(candidates, candidates.minutes[:, -HOUR_MINUTES:].sum(axis=1))


def hour(minutes: list[int], days: list[int] | None = None, known_minutes: int = 120) -> float:
    found = of(minutes, days, known_minutes).hour
    assert found is not None
    return float(found[0])


@thorough
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=7))
def test_an_hour_is_expected_as_the_median_of_days_or_as_yesterday(days: list[int]) -> None:
    assert hour(STEADY, days) == max(statistics.median(days), days[0])


def test_a_burst_on_one_earlier_day_is_not_expected_again() -> None:
    assert hour(STEADY, [180, 9000, 181, 179, 182]) == 181


def test_before_there_is_a_day_the_minutes_before_the_hour_are_expected() -> None:
    assert hour(STEADY) == 180
    assert hour([3] * 60 + [1000] * 60) == 180
    assert hour([9] * 30 + [3] * 90, known_minutes=90) == 180
    assert of(STEADY, known_minutes=89).hour is None


def test_the_later_of_the_minutes_before_weigh_more() -> None:
    # Half of the weight every thirty minutes, so the last thirty of sixty have two thirds.
    assert hour([0] * 30 + [6] * 30 + [0] * 60) == pytest.approx(60 * 4.0, rel=0.01)
    assert hour([6] * 30 + [0] * 90) == pytest.approx(60 * 2.0, rel=0.01)


def test_a_minute_is_expected_as_its_share_of_the_hour_or_as_the_minutes_before() -> None:
    def minute(minutes: list[int], days: list[int]) -> float:
        found = of(minutes, days).minute
        assert found is not None
        return float(found[0])

    assert minute([3] * 119 + [500], [60]) == 3.0
    assert minute([1] * 119 + [500], [180]) == 3.0


def test_nothing_is_expected_of_a_minute_before_thirty_are_known() -> None:
    assert of(STEADY, known_minutes=30).minute is None
    assert of(STEADY, known_minutes=31).minute is not None


def test_new_is_who_was_not_there_on_any_known_day_or_before_the_hour() -> None:
    assert of(STEADY, [0, 0, 0]).is_new.tolist() == [True]
    assert of([0] * 60 + [3] * 60, [0, 1, 0]).is_new.tolist() == [False]
    assert of([0] * 60 + [3] * 60).is_new.tolist() == [True]
    assert of(STEADY).is_new.tolist() == [False]
    assert of([0] * 60 + [3] * 60, known_minutes=60).is_new.tolist() == [False]


def test_the_level_is_the_median_ratio_of_the_counters_that_usually_have_enough() -> None:
    usual = np.array([20.0] * 21 + [19.9] * 50)
    counts = np.array([30] * 20 + [10**6] + [10**6] * 50)
    assert level(counts, usual) == 1.5
    assert level(counts // 10, usual) == 1.0
    assert level(counts * 10, usual) == 3.0


def test_too_few_counters_tell_no_level() -> None:
    assert level(np.full(19, 60), np.full(19, 30.0)) == 1.0
    assert level(np.full(20, 60), np.full(20, 30.0)) == 2.0


def test_what_lifts_all_counters_alike_is_expected_of_each() -> None:
    candidates = recent([[4] * 120] * 30 + [[16] * 120], days=[[120]] * 31)
    found = expected(candidates, candidates.minutes[:, -HOUR_MINUTES:].sum(axis=1)).hour
    assert found is not None
    assert found.tolist() == [240.0] * 31
