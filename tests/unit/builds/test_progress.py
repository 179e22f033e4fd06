"""How far a replay is: by records, by its last seconds, and when it has caught up."""

import pytest

from pipeline.builds import progress as progress_module
from pipeline.builds.progress import CAUGHT_UP_S, ProgressMeter


def test_it_counts_from_where_the_log_begins() -> None:
    progress = ProgressMeter([100, 0]).look(0.0, [200, 50], {0: 149, 1: -1})
    assert (progress.done, progress.total) == (50, 150)
    assert progress.lag_s is None
    assert not progress.is_caught_up


def test_the_rate_and_the_time_left_are_those_of_the_last_seconds() -> None:
    meter = ProgressMeter([0])
    meter.look(0.0, [100_000], {0: 999})
    progress = meter.look(10.0, [100_000], {0: 20_999})
    assert progress.rate == 2_000
    assert progress.left_s == pytest.approx(39.5)
    for second in range(11, 31):
        progress = meter.look(float(second), [100_000], {0: 20_999})
    assert progress.rate == 0
    assert progress.left_s is None


def test_it_has_caught_up_when_it_has_what_was_there_a_moment_ago_though_more_comes() -> None:
    meter = ProgressMeter([0])
    for second in range(20):
        end = 1_000 + 500 * second
        through = end - 1 - (400 if second > 10 else 900)
        progress = meter.look(float(second), [end], {0: through})
    assert progress.done < progress.total
    assert progress.lag_s == 1.0
    assert progress.is_caught_up


def test_a_build_that_is_hours_behind_costs_no_memory_and_is_never_told_to_be_nearer_than_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_module, "ENDS_MAX", 10)
    meter, first_s = ProgressMeter([0]), 100
    for second in range(first_s, 1_000):
        at = 50 if second < 500 else 4 * (second - 500)
        progress = meter.look(float(second), [second], {0: at - 1})
        assert len(meter._ends) <= 10
        if at < first_s:
            assert progress.lag_s is None
        elif at < second:
            assert progress.lag_s is None or progress.lag_s >= second - at
            assert not progress.is_caught_up or second - at <= CAUGHT_UP_S
    assert progress.lag_s == 0.0


def test_an_empty_log_is_caught_up_with_at_once() -> None:
    progress = ProgressMeter([]).look(0.0, [], {})
    assert progress.is_caught_up
    assert progress.left_s == 0


def test_a_partition_that_was_added_is_counted_too() -> None:
    progress = ProgressMeter([10]).look(0.0, [20, 5], {0: 19})
    assert (progress.done, progress.total) == (10, 15)


def test_what_people_read() -> None:
    meter = ProgressMeter([0])
    meter.look(0.0, [1_000_000], {})
    progress = meter.look(10.0, [1_000_000], {0: 99_999})
    assert progress.line() == " 10.0 % · 100,000 of 1,000,000 records · 10,000/s · 1 min 30 s left"
