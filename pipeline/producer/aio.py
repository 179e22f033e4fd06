"""The producer for asyncio: the same, but waiting lets others run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from pipeline.producer.buffer import BufferFullError
from pipeline.producer.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from types import TracebackType

    from pipeline.producer.checks import Columns
    from pipeline.producer.receipts import Receipt

_ROOM_S = 0.1


class AsyncProducer:
    """A Producer whose waiting is awaited; it takes the same arguments.

    async with AsyncProducer() as producer:
        receipt = await producer.increment("likes:post-42", member="ann")
        places = await receipt
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Does not connect yet: entering the context does, and raises what Producer raises."""
        self._make: Callable[[], Producer] = lambda: Producer(*arguments, **options)
        self._made: Producer | None = None

    @property
    def producer(self) -> Producer:
        """The producer itself, once the context was entered."""
        if self._made is None:
            raise RuntimeError("use it with `async with`")
        return self._made

    async def increment(
        self,
        counter: str,
        delta: int = 1,
        *,
        member: str | None = None,
        region: str = "",
        at: int | str | datetime | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> Receipt:
        """As `Producer.increment`; await the receipt to learn where the log has it."""
        producer = self.producer
        while True:
            try:
                # The loop's thread never waits: others may take the room that there was.
                with producer.at_once():
                    return producer.increment(
                        counter, delta, member=member, region=region, at=at, id=id
                    )
            except BufferFullError:
                if not producer.waits:
                    raise
            # Waiting is all that a thread does, so that cancelling this takes nothing half.
            await asyncio.to_thread(producer.has_room, _ROOM_S)

    async def increment_many(self, columns: Columns) -> Receipt:
        """As `Producer.increment_many`, in another thread: one that is cancelled is accepted whole
        all the same, so whoever sends it again counts it twice."""
        return await asyncio.shield(asyncio.to_thread(self.producer.increment_many, columns))

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as Producer's
        """As `Producer.flush`."""
        return await asyncio.to_thread(self.producer.flush, timeout)

    async def __aenter__(self) -> Self:
        self._made = await asyncio.to_thread(self._make)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.producer.__exit__, kind, error, trace)
