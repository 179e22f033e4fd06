"""Ends a worker whose recovery hangs: Faust can wait for ever for a changelog that was emptied."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock

LOOK_EVERY_S = 5.0
STUCK_S = 120.0
"""Longer than a group needs to miss a dead member, and than any read of a changelog takes."""


class RecoveryWatchdog:
    """Looks now and then; `progress` is anything that differs when recovery went on."""

    def __init__(
        self, is_recovering: Callable[[], bool], progress: Callable[[], object], clock: Clock
    ) -> None:
        self._is_recovering = is_recovering
        self._progress = progress
        self._clock = clock
        self._seen: object = None
        self._since_s = clock.monotonic_s()

    def look(self) -> None:
        """Raise TryAgainError when recovery has made no progress for too long."""
        now_s = self._clock.monotonic_s()
        progress = self._progress()
        if not self._is_recovering() or progress != self._seen:
            self._seen, self._since_s = progress, now_s
        elif now_s - self._since_s > STUCK_S:
            raise TryAgainError(
                f"recovery has made no progress for {STUCK_S:.0f} s; the worker starts anew"
            )

    async def watch(self) -> None:
        """Look for ever. What it raises ends the worker."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()
