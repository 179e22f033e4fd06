"""Only right answers count in the race."""

from typing import Any

import pytest

from benchmarks._events import Event
from benchmarks._kit import WrongAnswerError
from benchmarks.race.truth import Truth, truth_of

MINUTE_MS = 60_000


def event(counter: str, delta: int, at: int, member: str) -> Event:
    return Event(counter, delta, at, member, "eu")


EVENTS = [
    event("a:1", 1, 0, "ann"),
    event("a:1", 1, MINUTE_MS - 1, "bob"),
    event("a:1", -1, 30_000, "cat"),
    event("a:1", 1, MINUTE_MS, "ann"),
    event("b:1", -1, 0, "ann"),
]


def result(**fields: Any) -> dict[str, Any]:
    counts = {"a:1 0": 1, "a:1 1": 1, "b:1 0": -1}
    return {"events": 5, "seconds": 1.0, "counts": counts, **fields}


def test_counts_go_by_counter_and_minute_and_members_by_additions() -> None:
    assert truth_of(EVENTS) == Truth(
        5, {"a:1 0": 1, "a:1 1": 1, "b:1 0": -1}, {"a:1 0": 2, "a:1 1": 1}
    )


def test_a_right_result_passes_with_and_without_estimates() -> None:
    truth_of(EVENTS).check("right", result(), is_counting=True)
    uniques = {"a:1 0": 2.1, "a:1 1": 0.9}
    truth_of(EVENTS).check("right", result(uniques=uniques), is_counting=True)


@pytest.mark.parametrize(
    "counts",
    [
        {"a:1 0": 2, "a:1 1": 1, "b:1 0": -1},
        {"a:1 0": 1, "a:1 1": 1},
        {"a:1 0": 1, "a:1 1": 1, "b:1 0": -1, "c:1 0": 1},
        {},
        None,
    ],
    ids=["one is off", "one is missing", "one is too many", "none", "not counted"],
)
def test_a_wrong_count_is_refused(counts: dict[str, int] | None) -> None:
    with pytest.raises(WrongAnswerError, match=r"wrong: \d of 3 counts are wrong, for example"):
        truth_of(EVENTS).check("wrong", result(counts=counts), is_counting=True)


def test_the_ceiling_need_not_count_but_must_count_rightly_if_it_does() -> None:
    truth_of(EVENTS).check("ceiling", result(counts=None), is_counting=False)
    with pytest.raises(WrongAnswerError):
        truth_of(EVENTS).check("ceiling", result(counts={"a:1 0": 7}), is_counting=False)


@pytest.mark.parametrize("fields", [{"events": 0}, {"events": 6}, {"seconds": 0.0}])
def test_a_result_that_claims_more_than_there_was_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(WrongAnswerError, match="of 5"):
        truth_of(EVENTS).check("claims", result(**fields), is_counting=True)


def test_an_estimate_may_be_a_little_off_and_no_more() -> None:
    many = [event("a:1", 1, 0, f"user-{number}") for number in range(1_000)]
    counts = {"a:1 0": 1_000}
    truth = truth_of(many)
    for estimate in (850.0, 1_150.0):
        found = result(counts=counts, uniques={"a:1 0": estimate})
        truth.check("near", found, is_counting=True)
    for uniques in ({"a:1 0": 849.0}, {"a:1 0": 1_151.0}, {}):
        with pytest.raises(WrongAnswerError, match="had 1000 members"):
            truth.check("far", result(counts=counts, uniques=uniques), is_counting=True)
