"""Live reads ask the owners to flush; those who ask at the same time share a request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.producer.receipts import Places
    from pipeline.reads.flush_requests import FlushRequests
    from pipeline.reads.receipts import Behind
    from pipeline.web.flushed import Flushed

APART_S = 0.1
"""Requests come no sooner after each other, however many ask. Owners have the same bound."""


class Flushing:
    """Has owners flush. Owned by one event loop."""

    def __init__(self, connect: Callable[[], FlushRequests], flushed: Flushed) -> None:
        """`connect` is called when the first live read comes."""
        self._connect = connect
        self._flushed = flushed
        self._requests: FlushRequests | None = None
        self._under_way: asyncio.Task[Places] | None = None
        self._next: asyncio.Task[Places] | None = None

    async def flush(self, timeout_s: float) -> list[Behind]:
        """Return when all that was in the log before this call is in ClickHouse, or after so long.

        Tells which shards are behind then; their owners could not be asked. Raises TryAgainError
        when Kafka or ClickHouse does not answer.
        """
        return await self._flushed.wait(await self._asked(), timeout_s)

    def close(self) -> None:
        """Disconnect. Blocks shortly."""
        if self._requests is not None:
            self._requests.close()

    async def _asked(self) -> Places:
        """Where the requests are that were sent after this call."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._under_way))
        return await asyncio.shield(self._next)

    async def _ask_after(self, before: asyncio.Task[Places] | None) -> Places:
        if before is not None:
            await asyncio.wait([before])
            await asyncio.sleep(APART_S)
        # From here on it is under way: who comes now was not there before it, and is the next.
        self._under_way, self._next = self._next, None
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> Places:
        if self._requests is None:
            self._requests = self._connect()
        return self._requests.ask()
