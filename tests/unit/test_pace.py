"""How long a worker pauses between writes."""

import pytest

from pipeline.reads.health import CHECKPOINT_AGE_MS_MAX
from pipeline.writes.pace import (
    BACKOFF_S_MAX,
    CATCHING_UP_S,
    CHECKPOINT_S_MAX,
    CHECKPOINTS_APART,
    PAUSE_S_MAX,
    Pace,
)
from tests.kit.clocks import ManualClock

FLUSH_S, CHECKPOINT_S = 1.0, 5.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pace(clock: ManualClock) -> Pace:
    return Pace(clock, FLUSH_S, CHECKPOINT_S)


def write(
    pace: Pace, clock: ManualClock, took_s: float, *, checkpoint: bool = False, after_s: float = 0
) -> None:
    """A write that took so long; for `after_s` of it ClickHouse had nothing to do any more."""
    pace.begin()
    clock.advance(took_s - after_s)
    flushed_s = clock.monotonic_s()
    clock.advance(after_s)
    pace.succeed(flushed_s=flushed_s, checkpoint=checkpoint)


def pauses_s(pace: Pace, clock: ManualClock, *took_s: float) -> list[float]:
    """The pause after each of some writes."""
    pauses = []
    for one_s in took_s:
        write(pace, clock, one_s)
        pauses.append(pace.pause_s)
    return pauses


def fail(pace: Pace, clock: ManualClock, took_s: float) -> None:
    pace.begin()
    clock.advance(took_s)
    pace.fail()


def test_between_quick_writes_lies_a_whole_flush_interval(pace: Pace, clock: ManualClock) -> None:
    assert pace.pause_s == FLUSH_S
    write(pace, clock, 0.2)
    assert pace.pause_s == FLUSH_S


def test_writing_takes_no_more_than_half_of_the_time(pace: Pace, clock: ManualClock) -> None:
    assert pauses_s(pace, clock, 7, 7, 7, 7, 0.5) == [2, 4, 7, 7, FLUSH_S]


def test_one_long_write_is_not_taken_for_work(pace: Pace, clock: ManualClock) -> None:
    """It may have hung: counts stood still for twice as long as ClickHouse had."""
    assert pauses_s(pace, clock, 0.1, 8, 0.1) == [FLUSH_S, 2 * FLUSH_S, FLUSH_S]
    write(pace, clock, 8)
    assert pace.newest_after_s == 2 * FLUSH_S


def test_the_pause_after_a_very_long_write_is_bounded(pace: Pace, clock: ManualClock) -> None:
    assert pauses_s(pace, clock, *[10 * PAUSE_S_MAX] * 8)[-2:] == [PAUSE_S_MAX] * 2


def test_a_flush_interval_longer_than_any_stretching_is_kept(clock: ManualClock) -> None:
    pace = Pace(clock, 300, 300)
    write(pace, clock, 100)
    assert pace.pause_s == 300


def test_a_checkpoint_is_due_after_its_interval(pace: Pace, clock: ManualClock) -> None:
    clock.advance(CHECKPOINT_S - 0.1)
    assert not pace.checkpoint_is_due()
    clock.advance(0.1)
    assert pace.checkpoint_is_due()
    write(pace, clock, 0.1)
    assert pace.checkpoint_is_due(), "a flush is no checkpoint"
    write(pace, clock, 0.1, checkpoint=True)
    assert not pace.checkpoint_is_due()


def test_the_next_checkpoint_waits_a_multiple_of_what_the_last_one_took(
    pace: Pace, clock: ManualClock
) -> None:
    write(pace, clock, 3, checkpoint=True)
    clock.advance(3 * CHECKPOINTS_APART - 0.1)
    assert not pace.checkpoint_is_due()
    clock.advance(0.1)
    assert pace.checkpoint_is_due()
    write(pace, clock, 0.1, checkpoint=True)
    clock.advance(CHECKPOINT_S)
    assert pace.checkpoint_is_due(), "a quick one ends the stretching"


def test_the_stretching_of_checkpoints_is_bounded(pace: Pace, clock: ManualClock) -> None:
    write(pace, clock, CHECKPOINT_S_MAX, checkpoint=True)
    clock.advance(CHECKPOINT_S_MAX)
    assert pace.checkpoint_is_due()
    assert CHECKPOINT_S_MAX * 1000 < CHECKPOINT_AGE_MS_MAX, "or status would call it stuck"


def test_a_checkpoint_can_be_asked_for_and_stays_due_until_it_succeeds(
    pace: Pace, clock: ManualClock
) -> None:
    pace.checkpoint_soon()
    assert pace.checkpoint_is_due()
    fail(pace, clock, 0.1)
    assert pace.checkpoint_is_due()
    write(pace, clock, 0.1, checkpoint=True)
    assert not pace.checkpoint_is_due()


def test_failures_double_the_pause_up_to_a_bound_and_a_success_ends_it(
    pace: Pace, clock: ManualClock
) -> None:
    pauses = []
    for _ in range(6):
        fail(pace, clock, 30)
        pauses.append(pace.pause_s)
    assert pauses == [2, 4, 8, BACKOFF_S_MAX, BACKOFF_S_MAX, BACKOFF_S_MAX]
    assert pace.failures == 6
    write(pace, clock, 0.1)
    assert (pace.pause_s, pace.failures) == (FLUSH_S, 0)
    fail(pace, clock, 30)
    assert pace.pause_s == 2


def test_a_server_that_came_back_is_noticed_soon_whatever_the_flush_interval(
    clock: ManualClock,
) -> None:
    pace = Pace(clock, 600, 600)
    fail(pace, clock, 1)
    assert pace.pause_s == BACKOFF_S_MAX


def waits_s(pace: Pace) -> tuple[float, float]:
    """How long the newest waits, and what is older."""
    return round(pace.newest_after_s, 6), round(pace.pause_s, 6)


def test_who_keeps_up_writes_sooner_than_who_catches_up(clock: ManualClock) -> None:
    pace = Pace(clock, 0.25, CHECKPOINT_S)
    assert waits_s(pace) == (0.25, CATCHING_UP_S)
    write(pace, clock, 0.1)
    assert waits_s(pace) == (0.25, CATCHING_UP_S)
    write(pace, clock, 0.5)
    assert waits_s(pace) == (0.5, CATCHING_UP_S)
    for expected in ((1, 2), (2, 3), (3, 3)):
        write(pace, clock, 3)
        assert waits_s(pace) == expected


def test_the_newest_waits_from_when_clickhouse_had_confirmed(clock: ManualClock) -> None:
    pace = Pace(clock, 0.25, CHECKPOINT_S)
    write(pace, clock, 0.3, checkpoint=True, after_s=0.125)
    assert pace.newest_after_s == pytest.approx(0.125)
    write(pace, clock, 0.9, checkpoint=True, after_s=0.4)
    assert pace.newest_after_s == pytest.approx(0.1)
    write(pace, clock, 4, checkpoint=True, after_s=3)
    assert waits_s(pace) == (0, 2)


def test_a_longer_flush_interval_is_kept_by_all(clock: ManualClock) -> None:
    pace = Pace(clock, 30, 30)
    write(pace, clock, 0.1)
    assert waits_s(pace) == (30, 30)
