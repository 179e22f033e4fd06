"""Days that are rolled up for good are remembered: of one border, for a while, within bounds."""

from datetime import date

import pytest

from pipeline.reads.settled import (
    AGE_S,
    AGING_S,
    WANTED_S,
    Border,
    Months,
    Owner,
    Settled,
    SettledMonth,
    months_of,
)
from tests.kit.clocks import ManualClock

BORDER = Border(1, date(2026, 3, 2))
MARCH = date(2026, 3, 1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def months(shards: int, p: int = 1) -> Months:
    return {Owner("eu", "main", n, MARCH): SettledMonth(days=(p, 0, 0)) for n in range(shards)}


def keep(settled: Settled, clock: ManualClock, **read: Months) -> None:
    settled.keep(BORDER, clock.monotonic_s(), read)


def test_what_was_kept_is_known_of_the_same_border(clock: ManualClock) -> None:
    settled = Settled(clock)
    keep(settled, clock, a=months(2), b={})
    assert settled.known(BORDER, ["a", "b", "c"]) == {"a": months(2), "b": {}}


@pytest.mark.parametrize("other", [Border(2, BORDER.day), Border(1, date(2026, 3, 3))])
def test_nothing_is_known_of_another_border(clock: ManualClock, other: Border) -> None:
    settled = Settled(clock)
    keep(settled, clock, a=months(2))
    assert settled.known(other, ["a"]) == {}


def test_another_border_replaces_all_that_was_known(clock: ManualClock) -> None:
    settled = Settled(clock)
    keep(settled, clock, a=months(2), b=months(1))
    later = Border(1, date(2026, 3, 3))
    settled.keep(later, clock.monotonic_s(), {"a": months(2, p=5)})
    assert settled.known(later, ["a", "b"]) == {"a": months(2, p=5)}
    assert settled.known(BORDER, ["a", "b"]) == {}


def test_it_is_forgotten_after_a_while_counted_from_when_it_was_asked(clock: ManualClock) -> None:
    settled = Settled(clock)
    asked_s = clock.monotonic_s()
    clock.advance(AGE_S)
    settled.keep(BORDER, asked_s, {"a": months(1)})
    assert settled.known(BORDER, ["a"])
    clock.advance(0.1)
    assert settled.known(BORDER, ["a"]) == {}


def test_what_is_wanted_and_will_be_too_old_soon_is_told_the_last_wanted_first(
    clock: ManualClock,
) -> None:
    settled = Settled(clock)
    keep(settled, clock, a=months(1), b=months(1), c=months(1))
    assert settled.aging(BORDER, 10) == []
    clock.advance(AGING_S + 0.1)
    settled.known(BORDER, ["a"])
    assert settled.aging(BORDER, 10) == ["a", "c", "b"]
    assert settled.aging(BORDER, 2) == ["a", "c"]
    assert settled.aging(Border(2, BORDER.day), 10) == []
    keep(settled, clock, c=months(1))
    assert settled.aging(BORDER, 10) == ["a", "b"]


def test_what_nobody_wants_any_more_is_not_kept_young(clock: ManualClock) -> None:
    settled = Settled(clock)
    keep(settled, clock, a=months(1), b=months(1))
    clock.advance(AGE_S + 0.1)
    assert settled.known(BORDER, ["a"]) == {}, "wanted, though it is too old"
    clock.advance(WANTED_S - AGE_S)
    assert settled.aging(BORDER, 10) == ["a"]
    keep(settled, clock, a=months(1))
    clock.advance(WANTED_S)
    assert settled.aging(BORDER, 10) == [], "that it was read again is not that it was wanted"


def test_what_was_asked_for_longest_ago_gives_way(clock: ManualClock) -> None:
    settled = Settled(clock, rows_max=4)
    keep(settled, clock, a=months(2), b=months(1), empty={})
    settled.known(BORDER, ["a"])
    keep(settled, clock, c=months(1))
    assert set(settled.known(BORDER, ["a", "b", "c", "empty"])) == {"a", "c", "empty"}


def test_more_than_there_is_room_for_is_not_kept(clock: ManualClock) -> None:
    settled = Settled(clock, rows_max=4)
    keep(settled, clock, a=months(5))
    assert settled.known(BORDER, ["a"]) == {}


def test_the_same_counter_again_takes_its_own_room(clock: ManualClock) -> None:
    settled = Settled(clock, rows_max=4)
    for p in range(1, 10):
        keep(settled, clock, a=months(2, p=p), b=months(2))
    assert settled.known(BORDER, ["a", "b"]) == {"a": months(2, p=9), "b": months(2)}


def test_rows_become_months_of_every_counter_asked_for() -> None:
    owner, other = Owner("eu", "main", 1, MARCH), Owner("eu", "main", 1, date(2026, 2, 1))
    rows = [
        (True, "a", owner, (7, 1, 0)),
        (False, "a", owner, (6, 1, 0)),
        (True, "a", other, (3, 0, 0)),
    ]
    assert months_of(["a", "b"], rows) == {
        "a": {owner: SettledMonth((7, 1, 0), (6, 1, 0)), other: SettledMonth(life=(3, 0, 0))},
        "b": {},
    }
