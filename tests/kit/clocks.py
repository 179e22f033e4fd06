"""A Clock that stands still until a test moves it."""

from dataclasses import dataclass


@dataclass
class ManualClock:
    """A Clock."""

    now_s: float = 1_000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
