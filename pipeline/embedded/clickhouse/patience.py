"""How long the door waits for the next bytes of somebody who sends a query."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from pipeline.embedded.clickhouse import errors

SILENCE_S_MAX = 60.0
"""Longer than any client pauses that is still there; who vanished without a word is let go."""

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
