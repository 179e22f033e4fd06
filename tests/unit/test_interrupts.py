"""Signals are wishes while a command runs, and what they were before and after."""

import signal

import pytest

from pipeline.interrupts import SECOND_SIGNAL_S, Interrupts, StoppedError
from tests.kit.clocks import ManualClock


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_asks_and_a_later_one_hurries(number: signal.Signals) -> None:
    clock = ManualClock()
    before = signal.getsignal(number)
    with Interrupts(clock) as interrupts:
        assert (interrupts.asked, interrupts.hurried) == (False, False)
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert (interrupts.asked, interrupts.hurried) == (True, False)
        clock.advance(SECOND_SIGNAL_S)
        signal.raise_signal(number)
        assert interrupts.hurried
    assert signal.getsignal(number) is before


def test_waiting_is_cut_short_and_other_work_is_not() -> None:
    with Interrupts(ManualClock()) as interrupts:
        with interrupts.waiting():
            pass
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(StoppedError), interrupts.waiting():
            pytest.fail("it was asked before")
    with Interrupts(ManualClock()) as interrupts:
        with pytest.raises(StoppedError), interrupts.waiting():
            signal.raise_signal(signal.SIGINT)
        assert interrupts.asked
