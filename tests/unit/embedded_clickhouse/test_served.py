"""Who takes nothing of its answers from the door is let go, and who takes slowly is not."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from pipeline.embedded.clickhouse.served import Served

IDLE_S = 75
PING = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Wire:
    """A transport of which nothing but what is left to be taken is looked at."""

    def __init__(self) -> None:
        self.left_bytes = 0
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.left_bytes

    def abort(self) -> None:
        self.is_aborted = True


class Looks:
    """Time that passes by hand, from one look to the next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wire = Wire()
        self.served = Served(asyncio.Protocol(), IDLE_S)
        self.handles: list[asyncio.TimerHandle] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._call_later)
        self.served.connection_made(cast("Any", self.wire))

    def _call_later(
        self, delay_s: float, what: Callable[..., None], *given: object
    ) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        handle = asyncio.TimerHandle(loop.time() + delay_s, what, given, loop)
        self.handles.append(handle)
        return handle

    def look(self, left_bytes: int) -> bool:
        """Whether the connection lives on when so much is left at the next look."""
        self.wire.left_bytes = left_bytes
        self.handles[-1]._run()
        return not self.wire.is_aborted


@pytest.fixture
async def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


async def test_who_takes_something_between_two_looks_stays(looks: Looks) -> None:
    assert all(looks.look(left) for left in (0, 0, 900, 899, 1, 0, 900, 899))
    assert not looks.look(899)


async def test_an_answer_of_which_more_comes_when_some_is_taken_may_leave_as_much(
    looks: Looks,
) -> None:
    for _ in range(3):
        looks.served.pause_writing()
        assert looks.look(1 << 20)
        looks.served.resume_writing()
    assert not looks.look(1 << 20)


async def test_what_is_left_of_one_answer_is_not_held_against_the_next(looks: Looks) -> None:
    for _ in range(3):
        looks.wire.left_bytes = 0
        looks.served.data_received(PING)
        assert looks.look(900)
    looks.served.data_received(PING)
    assert not looks.look(900)


async def test_nobody_looks_at_a_connection_that_is_lost(looks: Looks) -> None:
    looks.served.connection_lost(None)
    assert looks.handles[-1].cancelled()
