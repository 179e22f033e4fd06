"""Questions about many keys at once: those that come while one is being asked go together.

The more is asked, the larger the batches, and the number of queries stays bounded.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from pipeline.errors import TryAgainError
from pipeline.reads.names_sent import NAMES_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")

BATCH_MAX = 500
"""How many keys are asked for at once."""

BATCH_BYTES_MAX = NAMES_BYTES_MAX
"""How long their names may be together."""

LANES = 2
"""How many batches are asked for at a time."""

WAITING_MAX = 50_000
"""How many keys may wait. One more is refused, so that a slow server is told to callers."""


class Batches(Generic[Key, Value]):
    """Asks `load` for keys. Owned by one event loop.

    A key that is asked for again while it waits is asked for once. What `load` raises is raised to
    all whose keys were in the batch; whoever gives up waiting takes nothing from the others.
    """

    def __init__(
        self,
        load: Callable[[Sequence[Key]], Awaitable[dict[Key, Value]]],
        *,
        waiting_max: int = WAITING_MAX,
        bytes_of: Callable[[Key], int] = lambda _: 0,
    ) -> None:
        """`load` has a value for each key it is given: so many that their `bytes_of` add up to
        BATCH_BYTES_MAX, or one."""
        self._load = load
        self._bytes_of = bytes_of
        self._waiting_max = waiting_max
        self._waiting: dict[Key, asyncio.Future[Value]] = {}
        self._running: dict[Key, asyncio.Future[Value]] = {}
        self._lanes: set[asyncio.Task[None]] = set()

    async def fresh(self, key: Key) -> Value:
        """The value by a question that begins after this call.

        Raises TryAgainError when too many keys wait, and what loading raises.
        """
        future = self._waiting.get(key)
        if future is None:
            if len(self._waiting) >= self._waiting_max:
                raise TryAgainError("too many questions wait for ClickHouse: ask again later")
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            # Retrieved, so that an error nobody waits for any more is not complained about.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            if len(self._lanes) < LANES:
                self._lanes.add(asyncio.create_task(self._run()))
        return await asyncio.shield(future)

    async def shared(self, key: Key) -> Value:
        """The value, also by a question that is under way already. Raises as `fresh`."""
        running = self._running.get(key)
        return await (asyncio.shield(running) if running is not None else self.fresh(key))

    async def _run(self) -> None:
        """One lane: ask as long as something waits."""
        lane = asyncio.current_task()
        assert lane is not None
        try:
            while self._waiting:
                await self._ask({key: self._waiting.pop(key) for key in self._next()})
        finally:
            # Here, not when the task is done: a key that came in between would wait for nobody.
            self._lanes.discard(lane)

    def _next(self) -> list[Key]:
        """Those that waited longest, as many as may be asked for at once."""
        keys: list[Key] = []
        left = BATCH_BYTES_MAX
        for key in islice(self._waiting, BATCH_MAX):
            left -= self._bytes_of(key)
            if keys and left < 0:
                break
            keys.append(key)
        return keys

    async def _ask(self, batch: dict[Key, asyncio.Future[Value]]) -> None:
        self._running |= batch
        try:
            values = await self._load(list(batch))
            for key, future in batch.items():
                future.set_result(values[key])
        except BaseException as error:
            for future in batch.values():
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            for key, future in batch.items():
                if self._running.get(key) is future:
                    del self._running[key]
