"""The short form of `python -m benchmarks.accuracy`: two seeds, small sizes."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks._accuracy_distinct import (
    DistinctTrial,
    distinct_rows,
    held_at_least,
    measure_distinct,
    members_of,
)
from benchmarks._accuracy_hour import RULES_ERROR_MIN, HourTrial, measure_hour
from benchmarks._accuracy_keys import Stream, measure_frequency, measure_heavy, recall
from benchmarks._accuracy_page import page
from benchmarks._accuracy_plot import plot
from benchmarks._accuracy_tables import Trials, broken_promises, hour_reach, hour_table, joined
from schemas.rules import Sketch

SEEDS = (1, 2)
SIZES = (1, 10, 100, 1000, 10_000)


def measured(seed: int) -> Trials:
    found = Trials(measure_distinct(seed, SIZES), [], [], [])
    for exponent in (0.8, 1.5):
        stream = Stream(seed, exponent, events=30_000, keys=5_000)
        found.frequency.append(measure_frequency(stream, 0.01))
        found.heavy.extend(measure_heavy(stream, capacity) for capacity in (100, 1_000))
        found.hour.extend(measure_hour(stream, errors=(0.002,), capacity=200, minutes=3))
    return found


@pytest.fixture(scope="module")
def trials() -> Trials:
    return joined(map(measured, SEEDS))


def test_every_promise_is_kept(trials: Trials) -> None:
    assert broken_promises(trials) == []


def test_distinct_counts_are_within_three_standard_errors(trials: Trials) -> None:
    errors = {9: 0.046, 12: 0.01625, 14: 0.008125}  # 1.04 / sqrt(2^precision)
    assert {one.precision for one in trials.distinct} == set(errors)
    assert len(trials.distinct) == len(SEEDS) * len(SIZES) * len(errors)
    for one in trials.distinct:
        assert abs(one.off) < 3 * errors[one.precision], one


def test_the_heaviest_are_found_with_a_thousand_keys_and_by_the_pipeline(trials: Trials) -> None:
    assert all(one.recall >= 0.98 for one in trials.heavy if one.capacity == 1_000)
    assert all(one.named == 1 for one in trials.hour)
    assert all(one.ranked >= 0.85 for one in trials.hour)


def test_a_broken_promise_is_told(trials: Trials) -> None:
    low = replace(trials.frequency[0], below=1)
    loose = replace(trials.frequency[0], within=0.98)
    wrong = replace(trials.heavy[0], broken=1)
    wide = replace(trials.heavy[0], widest=0.02)
    far = [DistinctTrial(12, 10, off, holds=True) for off in (0.07, -0.07)]
    unsure = [DistinctTrial(12, 10, 0.0, holds=False)] * 3
    for broken in (
        Trials([], [low], [], []),
        Trials([], [loose], [], []),
        Trials([], [], [wrong], []),
        Trials([], [], [wide], []),
        Trials(far, [], [], []),
        Trials(unsure, [], [], []),
    ):
        assert len(broken_promises(broken)) == 1


def test_a_row_sums_up_its_seeds() -> None:
    [row] = distinct_rows(
        [DistinctTrial(12, 10, 0.03, holds=True), DistinctTrial(12, 10, -0.04, holds=False)]
    )
    assert row.mean == pytest.approx(-0.005)
    assert row.root_mean_square == pytest.approx(0.0353553, abs=1e-6)
    assert (row.worst, row.held, row.seeds) == (0.04, 1, 2)


def test_a_tie_with_the_last_of_the_heaviest_is_as_good() -> None:
    truth = np.array([9, 5, 5, 5, 1])
    assert recall(np.array([0, 3]), truth, top=2) == 1
    assert recall(np.array([0, 4]), truth, top=2) == 0.5
    assert recall(np.array([0, 0]), truth, top=2) == 0.5
    assert recall(np.array([0, 1, 2, 3]), truth, top=2) == 1


def test_of_twenty_bounds_fourteen_or_fewer_hold_only_once_in_a_thousand_times() -> None:
    # P(X <= 14) = 0.00033 and P(X <= 15) = 0.00257, from tables of the binomial distribution.
    assert held_at_least(20) == 15
    assert held_at_least(1) == 0


def test_members_and_keys_differ_within_and_between_seeds() -> None:
    members = [*members_of(1, 0, 50).to_pylist(), *members_of(2, 0, 50).to_pylist()]
    assert len(set(members)) == 100
    streams = [Stream(seed, 1.0, events=1_000, keys=50) for seed in SEEDS]
    assert len({name for one in streams for name in one.names.to_pylist()}) == 100
    assert streams[0].numbers.tolist() != streams[1].numbers.tolist()


def test_keys_come_by_the_law_of_zipf() -> None:
    stream = Stream(1, 1.0, events=100_000, keys=3)  # shares of 6, 3 and 2 elevenths
    assert stream.truth / 100_000 == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.01)


def test_the_plot_has_a_dot_for_every_seed_and_the_page_a_row_for_every_size(
    trials: Trials,
) -> None:
    names = [one.tag.rpartition("}")[2] for one in ET.fromstring(plot(trials.distinct)).iter()]
    assert names.count("circle") == len(trials.distinct) + 1  # and one in the legend
    text = page(trials, len(SEEDS))
    assert text.count("| 10,000 |") == 3
    assert "Every promise was kept." in text


def test_a_recall_is_rounded_down_and_reached_only_if_it_is() -> None:
    trials = [
        HourTrial(0.8, error, named=1.0, weighed=1.0, ranked=ranked)
        for error, found in ((0.001, (0.99, 0.97)), (0.002, (0.98, 0.979)))
        for ranked in found
    ]
    assert hour_table(Trials([], [], [], trials)).splitlines()[2:] == [
        "| 0.8 | 0.001 | 1.000 | 1.000 | 0.980 | **0.970** |",
        "| 0.8 | 0.002 | 1.000 | 1.000 | **0.979** | **0.979** |",
    ]
    assert hour_reach(Trials([], [], [], trials)) == [
        "Zipf 0.8: on average at `error = 0.001`, with every seed at none of these errors"
    ]


def test_the_least_error_is_that_of_the_rules() -> None:
    assert Sketch(error=RULES_ERROR_MIN).error == RULES_ERROR_MIN
    with pytest.raises(ValueError, match="greater than or equal to"):
        Sketch(error=RULES_ERROR_MIN * 0.99)
