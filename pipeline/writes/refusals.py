"""Tells people why a shard is not counted on, before its worker ends."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from pipeline.errors import ShardRefusedError, TallyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pipeline.clock import Clock

log = logging.getLogger(__name__)


class Refusals(Protocol):
    """Where `tally status` reads of refusals. Raises TryAgainError when it is away."""

    async def write_refusal(self, shard: int, reason: str, refused_at_ms: int) -> None:
        """Store why a shard is not counted on."""
        ...


@asynccontextmanager
async def telling(
    refusals: Refusals, clock: Clock, finish: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Write down a ShardRefusedError that passes; it passes in any case.

    `finish` comes first: it keeps what was counted, which the log may not have any more, and after
    it nothing is written that would be newer than the refusal.
    """
    try:
        yield
    except ShardRefusedError as error:
        try:
            await finish()
            await refusals.write_refusal(error.shard, error.reason, clock.now_ms())
        except TallyError as untold:
            log.warning("`tally status` will not know of it: %s", untold)
        raise


def told(
    run: Callable[[], Awaitable[None]],
    refusals: Refusals,
    clock: Clock,
    finish: Callable[[], Awaitable[None]],
) -> Callable[[], Awaitable[None]]:
    """The same as a task, of which is told as `telling` does."""

    async def task() -> None:
        async with telling(refusals, clock, finish):
            await run()

    return task
