"""One connection of a web process: what it may hold, and for how long, before it is let go.

uvicorn bounds neither a request's head nor how long it may take to arrive, and never closes a
connection whose answer is not taken. No token is looked at before a head is whole, so whoever
reaches the port could hold memory and places for ever.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pipeline.web.parser import Parser

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sized

    import httptools
    from uvicorn import Config
    from uvicorn.server import ServerState

HEAD_BYTES_MAX = 256 << 10
"""Of a request's line and headers, beside what one read brings: a session of all partitions that
Tally has at most, a path of 64 KiB, and a JWT. As much of what is neither head nor body: trailers,
and what stands around chunks."""

HEADERS_MAX = 128
"""Of a request. A short one takes many times its bytes in memory."""

PIPELINED_MAX = 128
"""Requests that wait on a connection until the one before them is answered. It is not read on while
one does, so that of their bodies no more is held than one read brings."""

TOO_LARGE = f"the head of a request has {HEAD_BYTES_MAX} bytes and {HEADERS_MAX} headers at most"


class Connection(HttpToolsProtocol):
    """Refuses connections beyond `connections_max`, and heads that are too large with 400. Answers
    503 on one that came when there were `served_max`. Closes one on which more than PIPELINED_MAX
    requests wait.

    Closes a connection `timeout_keep_alive` seconds after it was made or last answered, if no head
    of a request was whole by then, however much of one has come. A request whose head is whole may
    take longer, and so may an answer of which something is taken in each such time.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        served_max: int,
        connections_max: int,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # uvicorn asks nothing else of it.
        self.parser = cast("httptools.HttpRequestParser", Parser(self))
        self.is_head_known = False
        """While it is read once more."""
        self._served_max = served_max
        self._connections_max = connections_max
        self._looks: asyncio.TimerHandle | None = None
        self._untaken_bytes: float = 0
        self._unfinished_bytes = 0
        self._in_head = True
        self._has_too_many_headers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """uvicorn refuses requests, not connections: who never asks would be held as well. And it
        refuses those of all when there are too many, not of who came last."""
        connections = len(self.connections)
        if connections < self._connections_max:
            # Many requests whose peers have left are refused as well, and held against all.
            self.limit_concurrency = (
                self._connections_max + 1 if connections < self._served_max else 0
            )
            super().connection_made(transport)
            self.flow = _Flow(transport, self.pipeline)
            self._wait()
        else:
            self.transport = transport
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looks is not None:
            self._looks.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # What ends a head, or is of a body, sets the number back. Then it is what came since.
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._unfinished_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response(TOO_LARGE)

    def on_message_begin(self) -> None:
        if self.is_head_known:
            return
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers are passed over: they would become headers of what is being answered. So is a
        head that is read again."""
        if not self._in_head:
            return
        if len(self.headers) == HEADERS_MAX:
            self._has_too_many_headers = True
            raise ValueError(TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.is_head_known:
            return
        if len(self.pipeline) == PIPELINED_MAX:
            raise ValueError("too many requests wait on this connection")
        self._in_head = False
        self._unfinished_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._unfinished_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The last one that waited has its turn: the rest of its body may come.
        if not self.transport.is_closing():
            self.flow.resume_reading()
        # uvicorn's own time ends with one byte that comes, or never where an answer is not taken.
        self._unset_keepalive_if_required()
        # An answer to one of several requests may end after their connection.
        if self in self.connections:
            self._wait()

    def pause_writing(self) -> None:
        self._untaken_bytes = math.inf
        super().pause_writing()

    def send_400_response(self, msg: str) -> None:
        """Closes. Says why unless it would be taken for the answer to another request."""
        cycle = self.cycle
        if (
            cycle is None
            or cycle.response_complete
            or (cycle.more_body and not cycle.response_started and not self.pipeline)
        ):
            super().send_400_response(TOO_LARGE if self._has_too_many_headers else msg)
        else:
            self.transport.close()

    def _wait(self) -> None:
        """From now on."""
        self._untaken_bytes = self.transport.get_write_buffer_size()
        self._look_later()

    def _look_later(self) -> None:
        if self._looks is not None:
            self._looks.cancel()
        self._looks = self.loop.call_later(self.timeout_keep_alive, self._look)

    def _look(self) -> None:
        """Goes on while a request is under way or an answer is taken; else gives the place back."""
        left_bytes = self.transport.get_write_buffer_size()
        is_taken = 0 < left_bytes < self._untaken_bytes
        self._untaken_bytes = left_bytes
        if is_taken or (self._is_under_way() and not self.flow.write_paused):
            self._look_later()
        else:
            # To close would wait for whoever takes nothing.
            self.transport.abort()

    def _is_under_way(self) -> bool:
        cycle = self.cycle
        return not (cycle is None or cycle.response_complete or self.transport.is_closing())


class _Flow(FlowControl):
    """Reads on when no request waits for its turn. uvicorn does whenever one is run, or answered:
    each time, what came was held for the one that came last, before its token was looked at."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()
