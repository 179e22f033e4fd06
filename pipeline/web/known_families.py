"""Which families may have counted a key, asked now and then for all who want to know."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pipeline.reads import families

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.clock import Clock
    from pipeline.web.asking import Asking

AGE_S = 5.0
"""How old the names may be: a family is made once, and asked for with every key."""


class KnownFamilies:
    """Asks for names; those who ask together share an answer. Owned by one event loop."""

    def __init__(self, asking: Asking, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._names: Sequence[str] = ()
        self._asked_s = float("-inf")
        self._under_way: asyncio.Task[Sequence[str]] | None = None

    async def names(self) -> Sequence[str]:
        """Of all families, strict ones too, at most AGE_S old. Raises TryAgainError."""
        if self._clock.monotonic_s() - self._asked_s <= AGE_S:
            return self._names
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._ask())
            # Retrieved, so that an error nobody waits for any more is not complained about.
            self._under_way.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._under_way)

    async def _ask(self) -> Sequence[str]:
        asked_s = self._clock.monotonic_s()
        self._names = await self._asking.ask(families.with_strict)
        self._asked_s = asked_s
        return self._names
