"""How far a build is behind the log: how much is left, how fast it goes, for how long. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RATE_OVER_S = 10.0
"""The rate is that of so long ago until now."""

CAUGHT_UP_S = 5.0
"""A build that has all that was in the log so long ago has caught up: it is as fresh as a flush."""

ENDS_MAX = 1_000
"""How many looks at ends of the log that the build has not reached are remembered. Past that, every
second one is forgotten: what is told of the lag may be too much then, never too little."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is. `lag_s` is None while it has less than what the log had when it was first
    looked at."""

    done: int
    total: int
    rate: float
    lag_s: float | None

    @property
    def is_caught_up(self) -> bool:
        """Whether the build can be taken."""
        return self.lag_s is not None and self.lag_s <= CAUGHT_UP_S

    @property
    def left_s(self) -> float | None:
        """How long it will take at this rate; None if nobody knows."""
        left = self.total - self.done
        if left <= 0:
            return 0.0
        return left / self.rate if self.rate > 0 else None

    def line(self) -> str:
        """For people."""
        share = 100 * self.done / self.total if self.total else 100.0
        left = "" if self.left_s is None else f" · {_duration(self.left_s)} left"
        return (
            f"{share:5.1f} % · {self.done:,} of {self.total:,} records · {self.rate:,.0f}/s{left}"
        )


@dataclass(slots=True)
class ProgressMeter:
    """Makes progress of what is seen now and then. `starts` are offsets where counting began."""

    starts: Sequence[int]
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    _ends: deque[tuple[float, list[int]]] = field(default_factory=deque)
    _reached_s: float | None = None

    def look(self, now_s: float, ends: Sequence[int], through: Mapping[int, int]) -> Progress:
        """`ends` are the log's now; `through` has the last offset of each shard that is flushed."""
        at = [max(through.get(shard, -1) + 1, self._start(shard)) for shard in range(len(ends))]
        self._ends.append((now_s, list(ends)))
        while self._ends and all(map(_is_reached, self._ends[0][1], at)):
            self._reached_s = self._ends.popleft()[0]
        if len(self._ends) > ENDS_MAX:
            self._ends = deque(islice(self._ends, 0, None, 2))
        done = sum(one - self._start(shard) for shard, one in enumerate(at))
        total = sum(end - self._start(shard) for shard, end in enumerate(ends))
        return Progress(done, max(total, done), self._rate(now_s, done), self._lag_s(now_s))

    def _start(self, shard: int) -> int:
        return self.starts[shard] if shard < len(self.starts) else 0

    def _rate(self, now_s: float, done: int) -> float:
        self._seen.append((now_s, done))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= RATE_OVER_S:
            self._seen.popleft()
        then_s, before = self._seen[0]
        return (done - before) / (now_s - then_s) if now_s > then_s else 0.0

    def _lag_s(self, now_s: float) -> float | None:
        return None if self._reached_s is None else now_s - self._reached_s


def _is_reached(end: int, at: int) -> bool:
    return at >= end


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
