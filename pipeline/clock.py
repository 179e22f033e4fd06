"""The one place that reads the machine's clocks, so that tests can pass their own."""

import time
from typing import Protocol


class Clock(Protocol):
    """Never blocks, never raises."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, for people and for records; may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some moment, for durations; never goes backwards."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
