"""A connection to the door that was let in, and what is done when nobody takes its answers."""

import asyncio
import math
from typing import cast


class Served(asyncio.Protocol):
    """Passes on to aiohttp's `handler`, and cuts a connection that takes nothing of its answers.

    aiohttp waits for that without end: in the midst of an answer, and when it closes. Whoever sent
    many pings and read nothing had a place of those that there are for as long as it stayed.

    Looks each `idle_s`: less must be left of answers than at the look before. Never blocks.
    """

    def __init__(self, handler: asyncio.Protocol, idle_s: float) -> None:
        self._handler = handler
        self._idle_s = idle_s
        self._untaken_bytes = math.inf
        self._transport: asyncio.Transport | None = None
        self._looks: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._look_later(self._transport)
        self._handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looks is not None:
            self._looks.cancel()
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Who has taken all before it asks again owes nothing of what a look found.
        if self._transport is not None and not self._transport.get_write_buffer_size():
            self._untaken_bytes = math.inf
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        # What was left is not what is left: of a long answer more comes whenever some is taken.
        self._untaken_bytes = math.inf
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def _look_later(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        self._looks = loop.call_later(self._idle_s, self._look, transport)

    def _look(self, transport: asyncio.Transport) -> None:
        left_bytes = transport.get_write_buffer_size()
        if left_bytes >= self._untaken_bytes:
            # To close would wait for whoever takes nothing.
            transport.abort()
            return
        self._untaken_bytes = left_bytes or math.inf
        self._look_later(transport)
