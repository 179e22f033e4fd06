"""Live reads ask the owners to flush; those who ask at the same time share a request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pipeline.errors import TryAgainError
from pipeline.reads.receipts import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.producer.receipts import Places
    from pipeline.reads.flush_requests import FlushRequests
    from pipeline.web.flushed import Flushed

APART_S = 0.1
"""Requests come no sooner after each other, however many ask. Owners have the same bound."""


class Flushing:
    """Has owners flush. Owned by one event loop."""

    def __init__(
        self, connect: Callable[[], FlushRequests], flushed: Flushed, clock: Clock
    ) -> None:
        """`connect` is called, in a thread, when the first live read comes."""
        self._connect = connect
        self._flushed = flushed
        self._clock = clock
        self._requests: FlushRequests | None = None
        self._under_way: asyncio.Task[Places] | None = None
        self._next: asyncio.Task[Places] | None = None
        self._asked_s = float("-inf")

    async def flush(self, timeout_s: float) -> str:
        """Return when all that was in the log before this call is in ClickHouse, or after so long.

        Empty when it is, else why not: which shards are behind, or that Kafka did not take the
        request, so that the owners could not be asked. Raises TryAgainError when ClickHouse does
        not answer.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                places = await self._asked()
        except TimeoutError:
            return f"Kafka did not take the request within {timeout_s:g} s"
        except TryAgainError as error:
            return str(error)
        left_s = max(0.0, deadline_s - self._clock.monotonic_s())
        return told(await self._flushed.wait(places, left_s))

    def close(self) -> None:
        """Disconnect. Blocks shortly."""
        if self._requests is not None:
            self._requests.close()

    async def _asked(self) -> Places:
        """Where the requests are that were sent after this call."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._under_way))
            # Retrieved, so that an error nobody waits for any more is not complained about.
            self._next.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._next)

    async def _ask_after(self, before: asyncio.Task[Places] | None) -> Places:
        if before is not None:
            await asyncio.wait([before])
        await asyncio.sleep(max(0.0, self._asked_s + APART_S - self._clock.monotonic_s()))
        # From here on it is under way: who comes now was not there before it, and is the next.
        self._under_way, self._next = self._next, None
        self._asked_s = self._clock.monotonic_s()
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> Places:
        if self._requests is None:
            self._requests = self._connect()
        return self._requests.ask()
