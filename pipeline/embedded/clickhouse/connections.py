"""How many may be connected to the door at once. One more is told so, and let go."""

import asyncio
from typing import cast

from aiohttp import web

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.served import Served

CONNECTIONS_MAX = 1_024
"""More than the processes of one machine keep open. There are fewer where files are scarce."""

REFUSED_MAX = 64
"""Who are being told that there is no room. One more is closed without a word."""

TOLD_S_MAX = 2.0
"""How long who was refused may take to read it and leave."""


class Connections:
    """Makes a protocol for each connection that is accepted. Used on the event loop."""

    def __init__(
        self, server: web.Server, connections_max: int, version: str, idle_s: float
    ) -> None:
        """`server` makes the protocols of those who are let in; `version` is the engine's.
        Who takes nothing of its answers is let go after three times `idle_s` at most."""
        self._server = server
        self._connections_max = connections_max
        self._idle_s = idle_s
        self._refusal = _refusal(connections_max, version)
        self._refused: set[_Guest] = set()

    def __call__(self) -> asyncio.BaseProtocol:
        return _Guest(self)

    def come(self, guest: "_Guest", transport: asyncio.Transport) -> None:
        """Let somebody in, if there is room."""
        if len(self._server.connections) < self._connections_max:
            served = Served(self._server(), self._idle_s)
            transport.set_protocol(served)
            served.connection_made(transport)
        elif len(self._refused) < REFUSED_MAX:
            self._refused.add(guest)
            transport.write(self._refusal)
            # Closed at once, with a query unread, it would take back what it has just said.
            transport.write_eof()
            guest.leave_within(TOLD_S_MAX, transport)
        else:
            transport.abort()

    def gone(self, guest: "_Guest") -> None:
        self._refused.discard(guest)


class _Guest(asyncio.Protocol):
    """Somebody who has just come; stays one only if there is no room."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._leaves: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._connections.come(self, cast("asyncio.Transport", transport))

    def leave_within(self, delay_s: float, transport: asyncio.Transport) -> None:
        self._leaves = asyncio.get_running_loop().call_later(delay_s, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._connections.gone(self)
        if self._leaves is not None:
            self._leaves.cancel()


def _refusal(connections_max: int, version: str) -> bytes:
    """A whole HTTP answer, in the shape of the door's other refusals."""
    error = errors.refusal(
        errors.TOO_MANY_SIMULTANEOUS_QUERIES,
        f"Too many connections: {connections_max} are open. "
        "Close some, or send queries over fewer that are kept open, and try again",
    )
    body = error.body(version).encode()
    head = (
        f"HTTP/1.1 {error.status} Internal Server Error\r\n"
        f"X-ClickHouse-Exception-Code: {error.code}\r\n"
        "Content-Type: text/plain; charset=UTF-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
