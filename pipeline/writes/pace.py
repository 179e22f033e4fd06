"""When to write: a pause between writes that grows with what a write takes, and with failures.

Pure but for the clock it is given. More to write makes a write longer, and a longer write makes the
pause longer; so a worker under load writes larger blocks less often instead of falling behind, and
half of the time at least is left for counting. Where room gets scarce, a pause is cut short. From
one write to the next a pause at most doubles: a single long one may have hung without being work.

Who keeps up with the log writes sooner than who catches up: the newest counts are what people wait
for, while old ones cost less when more of them are written at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.clock import Clock

BACKOFF_S_MAX = 10.0
"""The longest pause after a failure, so that a server that came back is noticed soon."""

PAUSE_S_MAX = 60.0
"""How far a long write stretches the pause after it."""

CATCHING_UP_S = 1.0
"""The pause of a worker that is behind the log, unless the flush interval is longer."""

CHECKPOINTS_APART = 4
"""A checkpoint is not due before this many times its own duration."""

CHECKPOINT_S_MAX = 20.0
"""How far a long checkpoint stretches the time to the next: well below the age at which `tally
status` takes a shard's worker for stuck."""


class Pace:
    """The timing of one worker's writes: `begin`, then `succeed` or `fail`, then wait `pause_s`,
    or only `newest_after_s` if the newest of the log is counted.

    `took_s` is how long the last one took that succeeded. The newest waits from when ClickHouse had
    confirmed, and by what it needed alone: what a checkpoint does then is no work for ClickHouse.
    """

    def __init__(self, clock: Clock, flush_interval_s: float, checkpoint_interval_s: float) -> None:
        self._clock = clock
        self._flush_interval_s = flush_interval_s
        self._checkpoint_interval_s = checkpoint_interval_s
        self._began_s = self._checkpointed_s = self._flushed_s = clock.monotonic_s()
        self._checkpoint_pause_s = checkpoint_interval_s
        self._soon = False
        self._backoff_s = flush_interval_s
        self.failures = 0
        self.took_s = 0.0
        self._stretched_s = self.pause_s = max(flush_interval_s, CATCHING_UP_S)
        self._apart_s = self.newest_after_s = flush_interval_s

    def checkpoint_soon(self) -> None:
        """The next write shall be a checkpoint."""
        self._soon = True

    def checkpoint_is_due(self) -> bool:
        """Whether the next write is a checkpoint rather than a flush."""
        return self._soon or self.checkpoint_age_s() >= self._checkpoint_pause_s

    def flush_age_s(self) -> float:
        """How long ago a write was last confirmed, or this began."""
        return self._clock.monotonic_s() - self._flushed_s

    def checkpoint_age_s(self) -> float:
        """How long ago a checkpoint was last confirmed, or this began."""
        return self._clock.monotonic_s() - self._checkpointed_s

    def begin(self) -> None:
        """A write begins now."""
        self._began_s = self._clock.monotonic_s()

    def succeed(self, *, flushed_s: float, checkpoint: bool) -> None:
        """The write that began last is confirmed; by ClickHouse it was at that monotonic time."""
        now_s = self._flushed_s = self._clock.monotonic_s()
        took_s = self.took_s = now_s - self._began_s
        self.failures = 0
        self._backoff_s = self._flush_interval_s
        least_s = max(self._flush_interval_s, CATCHING_UP_S)
        self._stretched_s = self.pause_s = _stretched(least_s, took_s, self._stretched_s)
        flush_s = flushed_s - self._began_s
        self._apart_s = _stretched(self._flush_interval_s, flush_s, self._apart_s)
        self.newest_after_s = max(0.0, flushed_s + self._apart_s - now_s)
        if checkpoint:
            self._soon = False
            self._checkpointed_s = now_s
            stretched_s = min(took_s * CHECKPOINTS_APART, CHECKPOINT_S_MAX)
            self._checkpoint_pause_s = max(self._checkpoint_interval_s, stretched_s)

    def fail(self) -> None:
        """The write that began last failed. A checkpoint that was due stays due."""
        self.failures += 1
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_S_MAX)
        self.pause_s = self._backoff_s


def _stretched(least_s: float, took_s: float, last_s: float) -> float:
    """A pause after a write that took so long, when the pause before it was `last_s`."""
    return max(least_s, min(took_s, PAUSE_S_MAX, 2 * last_s))
