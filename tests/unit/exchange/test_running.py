"""Passes one after the other: pauses, outages, comparisons."""

from collections.abc import Callable
from typing import cast

import pytest

from pipeline.errors import OperatorError, TryAgainError
from pipeline.exchange.exchange import Exchange, Passed
from pipeline.exchange.running import BACKOFF_S_MAX, CHECK_INTERVAL_S, Running
from tests.kit.clocks import ManualClock

INTERVAL_S = 10.0


class Scripted:
    """Stands for an exchange: each pass takes a second, and is what the script says."""

    def __init__(self, clock: ManualClock, script: list[Exception | None]) -> None:
        self._clock = clock
        self._script = script
        self.checked: list[bool] = []

    def run(self, *, check: bool) -> Passed:
        self._clock.advance(1)
        self.checked.append(check)
        error = self._script[len(self.checked) - 1]
        if error is not None:
            raise error
        return Passed("somebody", 1, 0)


def ran(
    script: list[Exception | None], stretch: Callable[[float], float] = lambda pause_s: pause_s
) -> tuple[Scripted, list[float], int, list[str]]:
    """The exchange, its pauses, how many passes were told, and which troubles."""
    clock = ManualClock()
    scripted = Scripted(clock, script)
    pauses: list[float] = []
    passes: list[Passed] = []
    troubles: list[str] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        clock.advance(stretch(seconds))
        return len(pauses) < len(script)

    running = Running(cast("Exchange", scripted), clock, wait, INTERVAL_S)
    running.run(passes.append, troubles.append)
    return scripted, pauses, len(passes), troubles


def test_passes_begin_an_interval_apart() -> None:
    _, pauses, passes, troubles = ran([None, None])
    assert (pauses, passes, troubles) == ([9.0, 9.0], 2, [])


def test_an_outage_is_told_once_and_gone_on_after() -> None:
    away = TryAgainError("away")
    _, pauses, passes, troubles = ran([None, away, away, away, None, away])
    assert pauses == [9.0, 1.0, 2.0, 4.0, 9.0, 1.0]
    assert passes == 2
    assert troubles == ["away", "away"], "once for each outage"


def test_pauses_of_an_outage_are_bounded() -> None:
    _, pauses, _, _ = ran([TryAgainError("away")] * 9)
    assert max(pauses) == pauses[-1] == BACKOFF_S_MAX


def test_the_first_pass_compares_and_so_does_one_an_hour_later() -> None:
    scripted, _, _, _ = ran([None, None, None], lambda _: CHECK_INTERVAL_S / 2)
    assert scripted.checked == [True, False, True]


def test_a_comparison_that_failed_is_made_again() -> None:
    scripted, _, _, _ = ran([TryAgainError("away"), None, None])
    assert scripted.checked == [True, True, False]


def test_what_somebody_must_act_on_ends_it() -> None:
    with pytest.raises(OperatorError, match="do this"):
        ran([None, OperatorError("do this")])
