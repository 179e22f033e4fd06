"""One connection of the web without a socket: what it is sent, what it writes, what it holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.server import ServerState

from pipeline.web.connection import PIPELINED_MAX, Connection
from tests.fuzz.web_answers import TOLD

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

EARLY = b"/early"
"""A path that begins with it is answered before the body is looked at."""

_IDLE_STEPS = 4
"""Of the loop, in which nothing happens any more where nothing happened in so many."""


class Peer:
    """A connection that was just made, of a loop that runs. Its reads are at the test's hands."""

    def __init__(self) -> None:
        self.app = App()
        self.state = ServerState()
        self.loop = _Loop()
        self.connection = Connection(
            _config(self.app),
            self.state,
            {},
            cast("Any", self.loop),
            served_max=1_000,
            connections_max=1_001,
        )
        self.wire = _Wire(self.connection)
        self.connection.connection_made(cast("Any", self.wire))

    def receive(self, piece: bytes) -> None:
        """As one read, if the connection is open."""
        if not self.wire.is_closing():
            self.connection.data_received(piece)
            assert len(self.connection.pipeline) <= PIPELINED_MAX

    async def settle(self) -> None:
        """Lets the app answer until it waits or has ended."""
        idle = 0
        while idle < _IDLE_STEPS and (self.state.tasks or self.wire.is_closing()):
            before = (self.app.steps, len(self.wire.written), len(self.state.tasks))
            await asyncio.sleep(0)
            is_idle = before == (self.app.steps, len(self.wire.written), len(self.state.tasks))
            idle = idle + 1 if is_idle else 0

    async def leave(self) -> None:
        """Nothing is left running afterwards."""
        self.wire.close()
        if self.app.turns:
            self.app.turns.release()
        await self.settle()
        assert not self.state.tasks
        assert not self.state.connections
        assert all(timer.cancelled() for timer in self.loop.timers)

    @property
    def held_bytes(self) -> int:
        """Of requests that are not answered yet, and of a head that is not whole."""
        connection = self.connection
        head = [*(connection.headers or ()), (getattr(connection, "url", b""), b"")]
        cycles = [connection.cycle, *(cycle for cycle, _ in connection.pipeline)]
        bodies = sum(len(cycle.body) for cycle in cycles if cycle is not None)
        return bodies + sum(len(name) + len(value) for name, value in head)


class App:
    """Tells of each request what it is, the names of its headers, and its body."""

    def __init__(self) -> None:
        self.turns: asyncio.Semaphore | None = None
        """Each lets it answer one request; without it all are answered at once."""

        self.takes_bodies = True
        """Even before its turn."""

        self.steps = 0
        self.was_early = False
        self.headers = 0
        """The most that a request had."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.steps += 1
        if self.turns and not self.takes_bodies:
            await self.turns.acquire()
        self.was_early = scope["raw_path"].startswith(EARLY)
        body, more = b"", not self.was_early
        while more:
            message = await receive()
            self.steps += 1
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        if self.turns and self.takes_bodies:
            await self.turns.acquire()
        self.headers = max(self.headers, len(scope["headers"]))
        told = _told(scope, body)
        headers = [(TOLD, told)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in (told[:5], told[5:]):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _told(scope: Scope, body: bytes) -> bytes:
    """In characters that a header may have; the method is the first word of it."""
    names = b",".join(name for name, _ in scope["headers"])
    parts = (scope["raw_path"], scope["query_string"], names, body)
    return b" ".join([scope["method"].encode(), *(part.hex().encode() or b"-" for part in parts)])


def told_part(part: bytes) -> bytes:
    """What the app tells of a path, a query, the names of headers, or a body."""
    return b"" if part == b"-" else bytes.fromhex(part.decode())


class _Loop:
    """The loop that runs, whose timers are noted. None of them is ever due here."""

    def __init__(self) -> None:
        self.timers: list[asyncio.TimerHandle] = []

    def create_task(self, coroutine: Any) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coroutine)

    def call_later(self, delay_s: float, what: Callable[[], None]) -> asyncio.TimerHandle:
        timer = asyncio.get_running_loop().call_later(delay_s, what)
        self.timers.append(timer)
        return timer


class _Wire:
    """A transport whose other side takes everything at once."""

    def __init__(self, connection: Connection) -> None:
        self.written = bytearray()
        self.is_paused = False
        self._connection = connection
        self._is_closing = False

    def write(self, data: bytes) -> None:
        if not self._is_closing:
            self.written += data

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> None:
        return None


def _config(app: App) -> uvicorn.Config:
    """As the web has it."""
    config = uvicorn.Config(
        app, loop="none", ws="none", lifespan="off", log_config=None, access_log=False,
        server_header=False, date_header=False, proxy_headers=False, timeout_keep_alive=75,
    )  # fmt: skip
    config.load()
    return config
