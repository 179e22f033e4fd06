"""Whether an event loop still turns: for processes that are asked by another thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.clock import Clock

TURN_S = 1.0
STUCK_S = 30.0
"""A loop that has not turned for so long hangs; nothing that is done in one takes as long."""


class Liveness:
    """Notes each second that the loop it runs on turns. `trouble` may be called by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turned_s: float | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._turned_s = self._clock.monotonic_s()
            await asyncio.sleep(TURN_S)

    def trouble(self) -> str | None:
        """Why the process should be started anew, or None. One that still starts is well."""
        if self._turned_s is None:
            return None
        age_s = self._clock.monotonic_s() - self._turned_s
        return f"the event loop did not turn for {age_s:.0f} s" if age_s > STUCK_S else None
