"""Adjustments beside sums of cells: which of them are in a time, and in which windows."""

import pytest

from pipeline.reads.adjusted import Adjusted
from pipeline.reads.spans import Span

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
T0 = 20_000 * DAY_MS


@pytest.fixture
def made() -> Adjusted:
    found = Adjusted()
    found.add(None, 0, 1, 1)
    found.add("1d", T0, 10, 2)
    found.add("1h", T0 + HOUR_MS, 100, 1)
    found.add("1m", T0 + HOUR_MS + MINUTE_MS, -1000, 3)
    return found


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (None, (7, -889)),
        (Span(), (6, -890)),
        (Span(T0, T0 + DAY_MS), (6, -890)),
        (Span(T0 + 1), (4, -900)),
        (Span(T0, T0 + DAY_MS - 1), (4, -900)),
        (Span(T0 + HOUR_MS + 1), (3, -1000)),
        (Span(T0 + HOUR_MS, T0 + HOUR_MS + 2 * MINUTE_MS), (3, -1000)),
        (Span(T0 + 2 * HOUR_MS), (0, 0)),
    ],
)
def test_one_is_in_a_time_if_its_whole_window_is(
    made: Adjusted, span: Span | None, expected: tuple[int, int]
) -> None:
    assert made.of(span) == expected


def test_a_window_has_those_of_its_own_and_of_finer_windows(made: Adjusted) -> None:
    hour_ms = T0 + HOUR_MS
    assert dict(made.windows("1d", None, set())) == {T0: -890}
    assert dict(made.windows("1h", None, set())) == {hour_ms: -900}
    assert dict(made.windows("1m", None, set())) == {hour_ms + MINUTE_MS: -1000}
    assert dict(made.windows("1m", Span(T0 + 2 * HOUR_MS), set())) == {}


def test_a_window_whose_cells_are_gone_is_not_listed_for_its_adjustment_alone(
    made: Adjusted,
) -> None:
    assert dict(made.windows("1m", None, {("1h", T0 + HOUR_MS)})) == {}
    assert dict(made.windows("1h", None, {("1h", T0 + HOUR_MS)})) == {T0 + HOUR_MS: -900}


def test_what_is_in_the_sum_but_in_no_window_is_told(made: Adjusted) -> None:
    told = "adjustments of {} are in the total, but in no single {}"
    assert made.remarks("1h", None) == [told.format("+11", "hour")]
    assert made.remarks("1m", Span(T0, T0 + DAY_MS)) == [told.format("+110", "minute")]
    assert made.remarks(None, None) == []
    assert made.remarks("1d", Span(T0)) == []
