"""How much of a limit is used in a window, by log time. Pure.

A fixed window is one of those that follow on each other since 1970. A sliding one is the time just
before, kept in at most about a thousand steps: what was granted in a step counts until the whole
step has left the window. So it may refuse up to a step longer than it had to, and never grants more
than the limit in any window, wherever that begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

STEPS = 1_000
"""Into how many steps a sliding window is cut; none is shorter than a millisecond."""


class WindowOf(NamedTuple):
    """Which window: how it goes, and how long it is."""

    is_sliding: bool
    length_ms: int

    @property
    def step_ms(self) -> int:
        """How long a step is; a fixed window is one."""
        return -(-self.length_ms // STEPS) if self.is_sliding else self.length_ms

    def step_of(self, log_ms: int) -> int:
        """The number of the step that a moment is in."""
        return log_ms // self.step_ms

    def first_live(self, log_ms: int) -> int:
        """The first step of which something may count at a moment."""
        since_ms = log_ms - self.length_ms if self.is_sliding else log_ms
        return self.step_of(since_ms)


@dataclass(slots=True)
class Used:
    """What was granted, by step. Moments never go backwards."""

    of: WindowOf
    steps: dict[int, int] = field(default_factory=dict)
    total: int = 0

    def at(self, log_ms: int) -> int:
        """How much counts at a moment; what has left the window is forgotten."""
        first = self.of.first_live(log_ms)
        while self.steps and (step := next(iter(self.steps))) < first:
            self.total -= self.steps.pop(step)
        return self.total

    def grant(self, amount: int, log_ms: int) -> None:
        """So much was granted at a moment."""
        step = self.of.step_of(log_ms)
        self.steps[step] = self.steps.get(step, 0) + amount
        self.total += amount
