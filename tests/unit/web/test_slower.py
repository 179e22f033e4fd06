"""A slow part of a view is kept for a while, and how fast builds catch up is told from looks."""

import pytest

from pipeline.errors import TryAgainError
from pipeline.web.catching_up import RATE_OVER_S, CatchingUp
from pipeline.web.slower import Slower
from tests.kit.clocks import ManualClock


class Answers:
    """Numbers the answers; raises while it has an error."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.asked


async def test_an_answer_is_kept_until_it_is_too_old() -> None:
    clock, answers = ManualClock(), Answers()
    slower = Slower(answers, clock, 5.0)
    assert [await slower(), await slower()] == [1, 1]
    clock.advance(4.9)
    assert await slower() == 1
    clock.advance(0.1)
    assert await slower() == 2


async def test_an_error_is_raised_and_not_kept() -> None:
    clock, answers = ManualClock(), Answers()
    slower = Slower(answers, clock, 5.0)
    answers.error = TryAgainError("away")
    with pytest.raises(TryAgainError):
        await slower()
    answers.error = None
    assert await slower() == 2


def test_what_is_left_of_a_build_is_told_by_how_much_nearer_it_came() -> None:
    builds = CatchingUp()
    replaying = {"build": 2, "behind": 1_000}
    live = {"build": 1, "behind": 0}
    assert [one["left_s"] for one in builds.look(0.0, [live, replaying])] == [0.0, None]
    found = builds.look(10.0, [live, {**replaying, "behind": 800}])
    assert [one["left_s"] for one in found] == [0.0, 40.0]


def test_a_build_that_falls_behind_or_is_new_has_no_time_left_that_anybody_knows() -> None:
    builds = CatchingUp()
    builds.look(0.0, [{"build": 2, "behind": 100}])
    found = builds.look(5.0, [{"build": 2, "behind": 300}, {"build": 3, "behind": 7}])
    assert [one["left_s"] for one in found] == [None, None]


def test_only_the_last_looks_make_the_rate() -> None:
    builds = CatchingUp()
    builds.look(0.0, [{"build": 2, "behind": 100_000}])
    builds.look(RATE_OVER_S, [{"build": 2, "behind": 1_000}])
    [found] = builds.look(2 * RATE_OVER_S, [{"build": 2, "behind": 900}])
    assert found["left_s"] == 900 * RATE_OVER_S / 100
