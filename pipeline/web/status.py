"""How the whole pipeline is doing, asked at most now and then for all who want to know."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pipeline.reads.status import status

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.reads.health import Status
    from pipeline.web.asking import Asking
    from schemas.settings import Settings

AGE_S = 2.0
"""How old a status may be: it takes a dozen queries."""


@dataclass(frozen=True, slots=True)
class _Known:
    status: Status
    asked_s: float


class StatusWatch:
    """Asks Kafka and ClickHouse; those who ask together share an answer. Owned by one loop."""

    def __init__(self, settings: Settings, asking: Asking, clock: Clock) -> None:
        self._settings = settings
        self._asking = asking
        self._clock = clock
        self._known: _Known | None = None
        self._under_way: asyncio.Task[Status] | None = None

    async def now(self) -> Status:
        """At most AGE_S old. Raises TryAgainError, OperatorError."""
        known = self._known
        if known is not None and self._clock.monotonic_s() - known.asked_s <= AGE_S:
            return known.status
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._ask())
        return await asyncio.shield(self._under_way)

    async def _ask(self) -> Status:
        asked_s = self._clock.monotonic_s()
        found = await self._asking.ask(partial(status, self._settings))
        self._known = _Known(found, asked_s)
        return found
