"""What a soak calls flat: the last third of a run beside its middle third."""

import xml.etree.ElementTree as ET

import pytest

from benchmarks._soak_flat import LIMITS, Series, p99_by_span, verdict
from benchmarks._soak_plot import plot

HOUR_S = 3600.0


def series(first: float, middle: float, last: float) -> Series:
    return [
        (at_s, (first, middle, last)[min(2, int(at_s * 3 // HOUR_S))])
        for at_s in range(0, int(HOUR_S), 2)
    ]


def test_what_grows_in_the_first_third_only_is_flat() -> None:
    found = verdict("worker", "memory", series(100, 300, 300), HOUR_S)
    assert (found.middle, found.last, found.is_flat) == (300, 300, True)


def test_what_grows_to_its_limit_is_flat_and_beyond_it_is_not() -> None:
    limit = LIMITS["memory"].reaches(300)
    assert verdict("worker", "memory", series(300, 300, limit), HOUR_S).is_flat
    assert not verdict("worker", "memory", series(300, 300, limit + 0.1), HOUR_S).is_flat


def test_a_leak_of_a_handle_a_minute_is_not_flat() -> None:
    leaking = [(at_s, 40 + at_s / 60) for at_s in range(0, int(HOUR_S), 2)]
    assert not verdict("worker", "handles", [(a, float(b)) for a, b in leaking], HOUR_S).is_flat


def test_a_single_peak_does_not_matter() -> None:
    calm = series(50, 50, 50)
    calm[-10] = (calm[-10][0], 5000.0)
    assert verdict("reads", "reads", calm, HOUR_S).is_flat


def test_a_third_without_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing was measured from 2400 s"):
        verdict("worker", "memory", [(at_s, 1.0) for at_s in range(2000)], HOUR_S)


def test_p99_is_taken_of_each_span() -> None:
    taken = [(second / 10, float(second % 100)) for second in range(1000)]
    assert p99_by_span(taken, 50.0) == [(25.0, 99.0), (75.0, 99.0)]


def test_the_plot_is_a_document_with_a_line_for_each_process() -> None:
    panels = {"memory, MiB": {"log": series(1, 2, 3), "worker": series(4, 5, 6)}, "reads": {}}
    document = ET.fromstring(plot("an hour", panels, HOUR_S))
    paths = [one.get("class") for one in document.iter("{http://www.w3.org/2000/svg}path")]
    assert paths.count("c0") == paths.count("c1") == 2  # the line and its sample in the legend
