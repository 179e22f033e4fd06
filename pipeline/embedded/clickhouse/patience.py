"""How long the door waits for somebody who sends a query, or takes its answer."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from pipeline.embedded.clickhouse import errors

SILENCE_S_MAX = 60.0
"""Longer than any client pauses that is still there; who vanished without a word is let go."""

TAKEN_S_MAX = 60.0
"""How long who asked may take for the next piece of an answer. The query waits with its place, and
of these there are so many that others, inserts among them, would wait behind it."""

T = TypeVar("T")


async def next_of(coming: Awaitable[T]) -> T:
    """What comes; raises ClickHouseError when nothing does for SILENCE_S_MAX."""
    try:
        async with asyncio.timeout(SILENCE_S_MAX):
            return await coming
    except TimeoutError:
        raise errors.refusal(
            errors.SOCKET_TIMEOUT, f"The rest of the query did not come within {SILENCE_S_MAX:g} s"
        ) from None


async def taken(giving: Awaitable[None]) -> bool:
    """Whether it was taken within TAKEN_S_MAX."""
    try:
        async with asyncio.timeout(TAKEN_S_MAX):
            await giving
    except TimeoutError:
        return False
    return True
