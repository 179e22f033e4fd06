import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.trends.candidates import DAYS, RECENT_MINUTES, Candidates
from pipeline.trends.score import FADE_MINUTES, Scored, root_score, score
from tests.unit.trends.streams import DAY, cut, recent

thorough = settings(max_examples=100, deadline=None, print_blob=True)

COUNT = st.integers(0, 10**9)
RATE = st.floats(0, 1e9)


def one(observed: float, expected: float) -> float:
    return float(root_score(np.array([observed], np.float64), np.array([expected]))[0])


def columns(of: Scored) -> dict[str, list[object]]:
    """Everything but the names, to compare bit by bit."""
    names = ("observed", "expected", "score", "horizon_minutes", "hour_count", "is_new")
    return {name: getattr(of, name).tolist() for name in names}


@pytest.mark.parametrize(
    ("observed", "expected", "wanted"),
    [
        (100, 25, 10 / math.sqrt(2)),
        (16, 1, 6 / math.sqrt(1.04)),
        (16, 0.001, 6 / math.sqrt(1.04)),
        (0, 9, -4 / math.sqrt(1.36)),
        (1, 0, 0.0),
        (0, 0.5, 0.0),
    ],
)
def test_a_score_is_what_a_calculator_says(observed: float, expected: float, wanted: float) -> None:
    assert one(observed, expected) == pytest.approx(wanted, rel=1e-12)


@thorough
@given(RATE)
def test_what_is_as_expected_scores_nothing(expected: float) -> None:
    assert one(expected, expected) == 0.0


@thorough
@given(COUNT, st.integers(1, 10**9), RATE)
def test_more_observed_never_scores_less(observed: int, more: int, expected: float) -> None:
    assert one(observed + more, expected) >= one(observed, expected)


@thorough
@given(COUNT, RATE, st.floats(0.1, 1e9))
def test_more_expected_never_scores_more(observed: int, expected: float, more: float) -> None:
    assert one(observed, expected + more) <= one(observed, expected) + 1e-9


@thorough
@given(st.floats(1, 1e6), st.floats(1.01, 50), st.floats(1.01, 1000))
def test_the_same_ratio_tells_more_of_greater_counts_but_never_past_a_bound(
    expected: float, ratio: float, scale: float
) -> None:
    small, great = one(expected * ratio, expected), one(expected * ratio * scale, expected * scale)
    assert small <= great + 1e-9
    # However great: ten times what the root of the ratio is above 1, for a swing of a fifth.
    assert great <= 10 * (math.sqrt(ratio) - 1) + 1e-9


def random_candidates(seed: int, rows: int) -> Candidates:
    rng = np.random.default_rng(seed)
    rates = rng.lognormal(0, 2, (rows, 1))
    names = pa.array([f"c{row}" for row in range(rows)], pa.string())
    minutes = rng.poisson(rates, (rows, RECENT_MINUTES))
    days = rng.poisson(60 * rates, (rows, DAYS))
    known = np.array([True] * 5 + [False] * 2)
    return Candidates(names, minutes, days, RECENT_MINUTES, known)


@thorough
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_the_order_of_candidates_does_not_matter(seed: int, rows: int) -> None:
    given_ = random_candidates(seed, rows)
    order = np.random.default_rng(seed + 1).permutation(rows)
    shuffled = Candidates(
        given_.counters.take(pa.array(order)),
        given_.minutes[order],
        given_.days[order],
        given_.known_minutes,
        given_.known_days,
    )
    straight, turned = columns(score(given_)), columns(score(shuffled))
    for name, column in straight.items():
        assert [column[row] for row in order] == turned[name], name


@thorough
@given(st.integers(0, 2**32), st.integers(1, 1000))
def test_one_more_event_never_lowers_the_score(seed: int, more: int) -> None:
    before = random_candidates(seed, 15)
    minutes = before.minutes.copy()
    minutes[:, -1] += more
    after = Candidates(before.counters, minutes, before.days, RECENT_MINUTES, before.known_days)
    assert (score(after).score >= score(before).score).all()


@thorough
@given(st.integers(0, 2**32), st.integers(0, 2 * DAY - 1))
def test_a_score_does_not_depend_on_anything_after_its_window(seed: int, minute: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(2, (3, 2 * DAY))
    other = counts.copy()
    other[:, minute + 1 :] = rng.poisson(50, other[:, minute + 1 :].shape)
    names = ["a", "b", "c"]
    assert columns(score(cut(names, counts, minute))) == columns(score(cut(names, other, minute)))


def test_a_burst_is_told_by_its_minute_and_a_riser_by_its_hour() -> None:
    burst = [2] * 119 + [60]
    riser = [2] * 60 + [5] * 60
    found = score(recent([burst, riser], days=[[120, 120], [120, 120]]))
    assert found.horizon_minutes.tolist() == [1, 60]
    assert found.observed.tolist() == [60, 300]
    assert found.expected.tolist() == [2.0, 120.0]
    assert found.score.tolist() == pytest.approx([one(60, 2), one(300, 120)])


def test_where_nothing_can_be_expected_yet_nothing_is_exceptional() -> None:
    found = score(recent([[0] * 29 + [5000]], known_minutes=30))
    assert found.score.tolist() == [0.0]
    found = score(recent([[0] * 30 + [5000]], known_minutes=31))
    assert found.score.tolist() == [one(5000, 0)]


def test_minutes_before_counting_began_are_not_looked_at() -> None:
    young = recent([[7] * 120], known_minutes=50)
    minutes = young.minutes.copy()
    minutes[:, :70] = 10**6
    spoilt = Candidates(young.counters, minutes, young.days, 50, young.known_days)
    assert columns(score(spoilt)) == columns(score(young))


def test_the_score_falls_to_nothing_after_so_many_minutes_without_events() -> None:
    def silent_for(minutes: int) -> float:
        return float(score(recent([[50] * 60 + [0] * minutes], days=[[10]])).score[0])

    falling = [silent_for(minutes) for minutes in range(1, FADE_MINUTES + 1)]
    assert all(a >= b for a, b in pairwise(falling))
    assert falling[-2] > 5
    assert falling[-1] <= 0


def test_removals_count_against_and_the_greatest_counts_do_not_overflow() -> None:
    found = score(recent([[100] * 59 + [-(10**4)], [2**62] * 120, [-(2**62)] * 120]))
    assert found.hour_count.tolist() == [0, 60 * 2**40, 0]
    assert np.isfinite(found.score).all()
    assert found.score[0] <= 0


@pytest.mark.parametrize(
    ("minutes", "days", "known_minutes"),
    [((2, 119), (2, 7), 120), ((2, 120), (1, 7), 120), ((2, 120), (2, 7), 0)],
)
def test_columns_that_do_not_fit_are_refused(
    minutes: tuple[int, int], days: tuple[int, int], known_minutes: int
) -> None:
    with pytest.raises(ValueError, match=r"minutes"):
        Candidates(
            pa.array(["a", "b"]),
            np.zeros(minutes, np.int64),
            np.zeros(days, np.int64),
            known_minutes,
            np.zeros(7, np.bool_),
        )
