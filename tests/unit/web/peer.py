"""One connection of the web, without a socket or a clock: its transport, loop, app and peer."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from pipeline.web.connection import Connection

READ = 64 << 10
BLOCK = 256 << 10
ASKED = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
POSTED = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POSTED + b"Transfer-Encoding: chunked\r\n\r\n"


def in_reads_of(size: int, text: bytes) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


class Wire:
    """A transport that notes what is done with it; what is written is taken at once, or never."""

    def __init__(self) -> None:
        self.written = b""
        self.untaken_bytes = 0
        self.ended = ""
        self.is_slow = False
        self.is_read = True

    def write(self, data: bytes) -> None:
        self.written += data
        self.untaken_bytes += len(data) if self.is_slow else 0

    def get_write_buffer_size(self) -> int:
        return self.untaken_bytes

    def get_extra_info(self, _name: str) -> None:
        return None

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return bool(self.ended)

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Loop:
    """Runs tasks, but its time passes only by `pass_time`."""

    def __init__(self) -> None:
        self._due: list[tuple[Any, Callable[[], None]]] = []

    def create_task(self, coroutine: Any) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coroutine)

    def call_later(self, _delay_s: float, what: Callable[[], None]) -> Any:
        handle = asyncio.TimerHandle(0, lambda: None, (), asyncio.get_running_loop())
        self._due.append((handle, what))
        return handle

    def pass_time(self) -> None:
        """As long as each may wait that waits now."""
        due, self._due = self._due, []
        for handle, what in due:
            if not handle.cancelled():
                what()


class App:
    """Answers each request, or the `slow` one, with its path and the length of its body when it is
    let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.let.set()
        self.slow = b""
        self.headers: list[int] = []
        self.asked: list[tuple[bytes, bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        size = len(body)
        self.headers.append(len(scope["headers"]))
        self.asked.append((scope["raw_path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"[", "more_body": True})
        if self.slow in (b"", scope["raw_path"]):
            await self.let.wait()
        await send({"type": "http.response.body", "body": b"%s %d]" % (scope["raw_path"], size)})


class Peer:
    """One connection, and what happens to it."""

    def __init__(self, state: ServerState | None = None, served_max: int = 1) -> None:
        self.app, self.wire, self.loop = App(), Wire(), Loop()
        config = uvicorn.Config(self.app, lifespan="off", log_config=None, access_log=False)
        config.load()
        self.state = state or ServerState()
        self.connection = Connection(
            config,
            self.state,
            {},
            cast("Any", self.loop),
            served_max=served_max,
            connections_max=served_max + 1,
        )
        self.connection.connection_made(cast("Any", self.wire))

    async def send(self, *pieces: bytes) -> None:
        """Each as one read, while the connection is open; then what was asked is done."""
        for piece in pieces:
            if not self.wire.ended:
                self.connection.data_received(piece)
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)

    async def offer(self, pieces: list[bytes]) -> int:
        """Each as one read, taken off when the connection reads. The most that it held at once of
        bodies whose requests wait for their turn."""
        held_bytes = 0
        for _ in range(50 + 10 * len(pieces)):
            if pieces and self.wire.is_read and not self.wire.ended:
                self.connection.data_received(pieces.pop(0))
                waiting = (cycle for cycle, _ in self.connection.pipeline)
                held_bytes = max(held_bytes, sum(len(cycle.body) for cycle in waiting))
            await asyncio.sleep(0)
        return held_bytes

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.wire.written.split(b"HTTP/1.1 ")[1:]]

    def answers(self, path: bytes) -> bool:
        return path in self.wire.written
