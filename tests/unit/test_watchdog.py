"""A recovery that hangs is ended, one that goes on is not."""

import pytest

from pipeline.errors import TryAgainError
from pipeline.watchdog import STUCK_S, RecoveryWatchdog


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s


class Recovery:
    """A recovery under watch, with a clock of its own."""

    def __init__(self) -> None:
        self.running, self.progress, self.clock = True, 0, Clock()
        self.dog = RecoveryWatchdog(lambda: self.running, lambda: self.progress, self.clock)

    def after(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.dog.look()


def test_a_recovery_without_progress_is_ended() -> None:
    recovery = Recovery()
    recovery.after(0)
    recovery.after(STUCK_S)
    with pytest.raises(TryAgainError, match="no progress for 120 s"):
        recovery.after(1)


def test_a_recovery_that_goes_on_is_left_alone() -> None:
    recovery = Recovery()
    for _ in range(10):
        recovery.progress += 1
        recovery.after(STUCK_S - 1)


def test_a_worker_that_is_not_recovering_is_left_alone() -> None:
    recovery = Recovery()
    recovery.running = False
    recovery.after(0)
    recovery.after(10 * STUCK_S)
    recovery.running = True
    recovery.after(STUCK_S - 1)
