"""What a soak calls flat: the last third of a run beside its middle third, and the slope."""

import random
import xml.etree.ElementTree as ET

import pytest

from benchmarks._soak_flat import (
    LIMITS,
    PER_HOUR,
    Asked,
    Series,
    p99_by_span,
    slope_per_hour,
    verdict,
)
from benchmarks._soak_plot import plot

HOUR_S = 3600.0


def series(first: float, middle: float, last: float) -> Series:
    return [
        (at_s, (first, middle, last)[min(2, int(at_s * 3 // HOUR_S))])
        for at_s in range(0, int(HOUR_S), 2)
    ]


def growing(first: float, per_hour: float, seconds: float = HOUR_S) -> Series:
    """A line with the noise of a process: swings of 20 minutes and of seconds."""
    chance = random.Random(1)
    return [
        (at_s, first + per_hour * at_s / HOUR_S + 5 * (at_s % 1200 / 1200) + chance.gauss(0, 3))
        for at_s in range(0, int(seconds), 2)
    ]


def test_what_grows_in_the_first_third_only_is_flat() -> None:
    found = verdict("worker", "memory", series(100, 300, 300), HOUR_S, of="worker")
    assert (found.middle, found.last, found.is_flat) == (300, 300, True)


def test_what_grows_to_its_limit_is_flat_and_beyond_it_is_not() -> None:
    limit = LIMITS["reads"].reaches(300)
    assert verdict("reads", "reads", series(300, 300, limit), HOUR_S).is_flat
    assert not verdict("reads", "reads", series(300, 300, limit + 0.1), HOUR_S).is_flat


def test_a_worker_that_is_always_far_behind_is_not_flat() -> None:
    assert verdict("freshness", "freshness", series(900, 900, 900), HOUR_S).is_flat
    assert not verdict("freshness", "freshness", series(50e3, 50e3, 50e3), HOUR_S).is_flat


@pytest.mark.parametrize("process", PER_HOUR["memory"])
def test_a_leak_that_the_thirds_let_pass_is_found_by_its_slope(process: str) -> None:
    leaking = growing(600, PER_HOUR["memory"][process] + 12)
    found = verdict(process, "memory", leaking, HOUR_S, of=process)
    assert found.last <= found.limit
    assert not found.is_flat


@pytest.mark.parametrize("process", PER_HOUR["memory"])
def test_a_process_that_swings_but_does_not_grow_is_flat(process: str) -> None:
    assert verdict(process, "memory", growing(600, 0), HOUR_S, of=process).is_flat


def test_two_hundred_mebibytes_an_hour_are_flat_nowhere() -> None:
    assert not any(
        verdict(process, "memory", growing(2000, 200), HOUR_S, of=process).is_flat
        for process in PER_HOUR["memory"]
    )


def test_growth_that_is_known_is_not_held_against_a_process_and_the_rest_is() -> None:
    per_hour = PER_HOUR["memory"]["worker"]
    known: Series = [(at_s, 100 * at_s / HOUR_S) for at_s in range(0, int(HOUR_S), 10)]
    fine, leaking = growing(2000, 100), growing(2000, 100 + per_hour + 12)
    assert verdict("worker", "memory", fine, HOUR_S, of="worker", known=known).is_flat
    assert not verdict("worker", "memory", leaking, HOUR_S, of="worker", known=known).is_flat
    assert not verdict("worker", "memory", fine, HOUR_S, of="worker").is_flat


def test_what_is_known_to_shrink_is_not_asked_back() -> None:
    shrinking: Series = [(at_s, 100 - 100 * at_s / HOUR_S) for at_s in range(0, int(HOUR_S), 10)]
    found = verdict("log", "memory", growing(60, 0), HOUR_S, of="log", known=shrinking)
    assert found.slope is not None
    assert found.slope.known == 0
    assert found.is_flat


def test_a_longer_run_finds_the_same_slope_and_a_shorter_one_may_swing_as_an_hour_does() -> None:
    per_hour = PER_HOUR["memory"]["web"]
    longer = verdict("web", "memory", growing(600, per_hour + 2, 21600), 21600, of="web")
    shorter = verdict("web", "memory", growing(600, per_hour + 2, 600), 600, of="web")
    assert longer.slope is not None
    assert shorter.slope is not None
    assert (longer.slope.limit, shorter.slope.limit) == (per_hour, per_hour * 6)
    assert not longer.is_flat


def test_a_leak_of_a_handle_in_ten_minutes_is_not_flat() -> None:
    leaking = [(float(at_s), 40.0 + at_s // 600) for at_s in range(0, int(HOUR_S), 2)]
    found = verdict("worker", "handles", leaking, HOUR_S, of="worker")
    assert found.last <= found.limit
    assert not found.is_flat


def test_the_slope_is_that_of_the_line_whatever_the_peaks() -> None:
    line = [(float(at_s), at_s / 36) for at_s in range(0, int(HOUR_S), 2)]
    assert slope_per_hour(line, 60) == pytest.approx(100)
    peaks = [(at_s, 9e9 if at_s % 600 < 60 else value) for at_s, value in line]
    assert slope_per_hour(peaks, 60) == pytest.approx(100, rel=0.05)
    assert slope_per_hour(line[:3], 60) == slope_per_hour([], 60) == 0


def test_one_question_in_a_thousand_may_fail_and_not_all_may_be_left_out() -> None:
    assert Asked("reads", 18_000, 18).is_well
    assert not Asked("reads", 18_000, 19).is_well
    assert not Asked("reads", 500, 1).is_well
    assert not Asked("reads", 0, 0).is_well


def test_a_single_peak_does_not_matter() -> None:
    calm = series(50, 50, 50)
    calm[-10] = (calm[-10][0], 5000.0)
    assert verdict("reads", "reads", calm, HOUR_S).is_flat


def test_a_third_without_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing was measured from 2400 s"):
        verdict("worker", "memory", [(at_s, 1.0) for at_s in range(2000)], HOUR_S, of="worker")


def test_p99_is_taken_of_each_span() -> None:
    taken = [(second / 10, float(second % 100)) for second in range(1000)]
    assert p99_by_span(taken, 50.0) == [(25.0, 99.0), (75.0, 99.0)]


def test_the_plot_is_a_document_with_a_line_for_each_process() -> None:
    panels = {"memory, MiB": {"log": series(1, 2, 3), "worker": series(4, 5, 6)}, "reads": {}}
    document = ET.fromstring(plot("an hour", panels, HOUR_S))
    paths = [one.get("class") for one in document.iter("{http://www.w3.org/2000/svg}path")]
    assert paths.count("c0") == paths.count("c1") == 2  # the line and its sample in the legend
