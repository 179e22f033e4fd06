"""What the dashboard makes of what it reads: rates, earlier places, who came and went."""

from pipeline.reads.moves import MOVES_MAX, Trended, moves_of
from pipeline.reads.rates import MINUTE_MS, RateMeter
from pipeline.reads.recent_minutes import ranks_before


def test_before_two_looks_are_apart_the_rate_is_that_of_the_last_minute_that_is_over() -> None:
    assert RateMeter().look(0.0, {0: 600, MINUTE_MS: 50}) == 10.0
    assert RateMeter().look(0.0, {0: 600}) is None
    assert RateMeter().look(0.0, {}) is None


def test_the_rate_is_what_minutes_grew_by_also_over_the_end_of_one() -> None:
    meter = RateMeter()
    meter.look(0.0, {0: 600, MINUTE_MS: 50})
    # The first minute is no longer looked at, the second grew, and a third began.
    assert meter.look(10.0, {MINUTE_MS: 250, 2 * MINUTE_MS: 100}) == 30.0


def test_the_rate_forgets_what_was_long_ago() -> None:
    meter = RateMeter()
    meter.look(0.0, {0: 0})
    meter.look(10.0, {0: 9_000})
    meter.look(25.0, {0: 9_000})
    assert meter.look(40.0, {0: 9_150}) == 10.0


def test_earlier_places_are_those_of_the_minutes_before() -> None:
    minutes = {"a": [1, 1, 9], "b": [5, 0, 0], "c": [0, 0, 7], "d": [2, 0, 0]}
    assert ranks_before(minutes, 1) == {"b": 1, "a": 2, "d": 3}


def trended(at_s: int, *counters: str) -> list[Trended]:
    return [Trended(at_s, name, "rising", 9.5) for name in counters]


def test_who_trends_in_a_minute_and_not_before_entered_and_the_other_way_around() -> None:
    found = moves_of([0, 60, 120], [*trended(0, "a"), *trended(60, "a", "b"), *trended(120, "b")])
    assert [(one.transition, one.counter, one.window) for one in found] == [
        ("leave", "a", "1970-01-01T00:02:00Z"),
        ("enter", "b", "1970-01-01T00:01:00Z"),
    ]
    assert [one.kind for one in found] == [None, "rising"]


def test_a_scored_minute_in_which_nothing_trends_lets_all_leave() -> None:
    found = moves_of([0, 60], trended(0, "a", "b"))
    assert [(one.transition, one.counter) for one in found] == [("leave", "b"), ("leave", "a")]


def test_nobody_enters_with_the_first_minute_that_is_looked_at() -> None:
    assert moves_of([60], trended(60, "a")) == []
    assert moves_of([], []) == []


def test_only_the_newest_moves_are_told() -> None:
    many = [f"c{number:03}" for number in range(2 * MOVES_MAX)]
    found = moves_of([0, 60, 120], [*trended(60, *many), *trended(120, *many, "last")])
    assert len(found) == MOVES_MAX
    assert found[0].counter == "last"
