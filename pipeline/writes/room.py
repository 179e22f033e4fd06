"""Room for what was counted and not written yet: when there is none, reading waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from typing import TYPE_CHECKING

from pipeline.metrics.definitions import worker as metric
from pipeline.metrics.meter import UNMEASURED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter

log = logging.getLogger(__name__)

DEAD_LETTERS_MAX = 10_000
DEAD_LETTER_BYTES_MAX = 64 << 20
"""How many dead letters, or bytes of them, wait for the next checkpoint before reading does."""


APART_S = 0.1
"""Writes that somebody waits for begin no sooner after each other, however many ask; and not before
twice the time that the last one took, so that half of the time is left for counting. That at most
doubles from one write to the next, since one may have hung without being work."""


class Room:
    """Bounds the increments that are not flushed and the dead letters that are not written.

    `dead_letters` tells how many of the latter there are, and their bytes. The bounds are passed by
    what one fetch holds at most, since a fetch is counted whole. Owned by one event loop.
    """

    def __init__(
        self,
        rows_max: int,
        dead_letters: Callable[[], tuple[int, int]],
        clock: Clock,
        *,
        dead_letters_max: int = DEAD_LETTERS_MAX,
        meter: Meter = UNMEASURED,
    ) -> None:
        self.rows = 0
        self._rows_max = rows_max
        self._dead_letters = dead_letters
        self._dead_letters_max = dead_letters_max
        self._clock = clock
        self._meter = meter
        self._freed = asyncio.Condition()
        self._wanted = asyncio.Event()
        self._waiting = 0
        self._hurried = False
        self._has_newest = self._newest_is_wanted = False
        self._began_s = clock.monotonic_s() - APART_S
        self._apart_s = APART_S

    def hurry(self) -> None:
        """Somebody waits for what is counted by now to be written. Never blocks."""
        self._hurried = True
        left_s = self._began_s + self._apart_s - self._clock.monotonic_s()
        asyncio.get_running_loop().call_later(max(0.0, left_s), self._wake)

    def begin(self) -> None:
        """A write begins, which will hold all that is counted by now. Never blocks."""
        self._hurried = self._has_newest = False
        self._began_s = self._clock.monotonic_s()

    def take(self, rows: int, *, newest: bool = False) -> None:
        """So many more increments are counted and not flushed; `newest` if the log had no more.

        Never blocks.
        """
        self.rows += rows
        self._has_newest |= newest
        if self._is_wanted() or (self._has_newest and self._newest_is_wanted):
            self._wanted.set()

    def lacks_dead_letters(self) -> bool:
        """Whether only a checkpoint makes room again."""
        letters, size = self._dead_letters()
        return letters >= self._dead_letters_max or size >= DEAD_LETTER_BYTES_MAX

    async def wait(self) -> None:
        """Return when there is room: at once, or after as long as the servers are away."""
        if (why := self._why_full()) is None:
            return
        since_s = self._clock.monotonic_s()
        self._meter.add(metric.ROOM_WAITS())
        self._waiting += 1
        self._wanted.set()
        if self._waiting == 1:
            log.warning("reading pauses: %s", why)
        try:
            async with self._freed:
                await self._freed.wait_for(lambda: self._why_full() is None)
        finally:
            self._waiting -= 1
            waited_s = self._clock.monotonic_s() - since_s
            self._meter.add(metric.ROOM_WAIT_SECONDS(), waited_s)
        if self._waiting == 0:
            log.warning("reading goes on after %.1f s", waited_s)

    async def free(self, rows: int) -> None:
        """So many increments that were taken before are flushed; dead letters may be gone, too."""
        async with self._freed:
            self.rows = max(0, self.rows - rows)
            took_s = self._clock.monotonic_s() - self._began_s
            self._apart_s = max(APART_S, 2 * min(took_s, self._apart_s))
            if not self._is_wanted():
                self._wanted.clear()
            if self._hurried:
                self.hurry()
            self._freed.notify_all()

    async def until_wanted(self, timeout_s: float, newest_after_s: float = math.inf) -> None:
        """Return as soon as half of the room is taken, or somebody waits for it, or after so long.

        After `newest_after_s` the newest of the log is reason enough, once it was counted. Whoever
        makes room then has the other half to count into while it is at it.
        """
        self._newest_is_wanted = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, newest_after_s)):
                await self._wanted.wait()
        if self._wanted.is_set() or self._has_newest or newest_after_s >= timeout_s:
            return
        self._newest_is_wanted = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s - newest_after_s):
                await self._wanted.wait()

    def _wake(self) -> None:
        if self._hurried:
            self._wanted.set()

    def _is_wanted(self) -> bool:
        return 2 * self.rows >= self._rows_max or self._why_full() is not None

    def _why_full(self) -> str | None:
        if self.rows >= self._rows_max:
            return (
                f"{self.rows} increments are not flushed yet, and TALLY_UNFLUSHED_ROWS_MAX is "
                f"{self._rows_max}"
            )
        if self.lacks_dead_letters():
            letters, size = self._dead_letters()
            return f"{letters} dead letters of {size} bytes are not written yet"
        return None
