"""How consumers of aiokafka are stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer


async def stop(consumer: AIOKafkaConsumer) -> None:
    """Have it leave its group and disconnect. Waits for that. May be repeated.

    aiokafka 0.14 waits for the fetches that it cancels, and one that had failed a moment ago, as
    where the broker is away, ends by that: so its own `stop` breaks off as if whoever called it
    were cancelled, and leaves connections open. Raises CancelledError only if that is so.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        fetches = list(consumer._fetcher._pending_tasks)
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)
        await consumer._client.close()
