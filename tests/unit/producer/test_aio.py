"""The loop's thread never waits for room, whoever took what there was."""

import asyncio
import threading
from typing import Any, cast

import pytest

from pipeline.producer.aio import AsyncProducer
from pipeline.producer.buffer import Buffer, BufferFullError
from pipeline.producer.producer import Producer
from tests.unit.producer.test_buffer import table

LONG_S = 30.0


class Contested:
    """A producer on a real buffer, of which another thread takes the room at the last moment."""

    def __init__(self, *, raises: bool) -> None:
        self.buffer = Buffer(1, raises=raises)
        self.tries = 0

    at_once = Producer.at_once
    has_room = Producer.has_room
    waits = Producer.waits

    @property
    def _buffer(self) -> Buffer:
        return self.buffer

    def increment(self, _counter: str, _delta: int, **_fields: object) -> str:
        self.tries += 1
        if self.tries == 1:
            other = threading.Thread(target=self.buffer.add, args=([table(1)],))
            other.start()
            other.join()
        self.buffer.add([table(1)])
        return "accepted"


def asynchronous(contested: Contested) -> AsyncProducer:
    made = AsyncProducer()
    made._made = cast("Any", contested)
    return made


async def test_an_increment_that_finds_no_room_any_more_lets_others_run() -> None:
    contested = Contested(raises=False)
    never = threading.Timer(LONG_S, contested.buffer.close)
    never.start()
    increment = asyncio.ensure_future(asynchronous(contested).increment("a:b"))
    await asyncio.sleep(0.05)
    assert not increment.done()
    contested.buffer.take()
    assert await asyncio.wait_for(cast("Any", increment), LONG_S / 2) == "accepted"
    never.cancel()


async def test_who_asked_for_an_error_is_told() -> None:
    with pytest.raises(BufferFullError):
        await asynchronous(Contested(raises=True)).increment("a:b")
