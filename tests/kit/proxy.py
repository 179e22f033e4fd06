"""A TCP proxy between two parts, in a thread, whose connections a test cuts, tears and delays."""

import asyncio
import contextlib
import socket
import struct
import threading
from concurrent.futures import Future
from typing import Self

HOST = "127.0.0.1"
START_TIMEOUT_S = 10
CHUNK_BYTES = 1 << 16
AT_ONCE = struct.pack("ii", 1, 0)
"""To linger for no time: what is closed then is reset."""


class Proxy:
    """Listens on a port of its own at once and passes on to `target_port`. Thread-safe.

    Nothing it does loses or changes a byte of a connection that goes on: harm is delay, or an end.
    A reset by one side is passed on to the other.
    """

    def __init__(self, target_port: int) -> None:
        """Blocks until it listens; what it stands before may start later."""
        self._target_port = target_port
        self._delay_s = 0.0
        self._tears = False
        self._passing: asyncio.Event
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._loop = asyncio.new_event_loop()
        self._listening: Future[int] = Future()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"proxy-{target_port}", daemon=True)
        self._thread.start()
        self.port = self._listening.result(START_TIMEOUT_S)

    def cut(self) -> None:
        """End all connections now, as a network does: both sides see a reset."""
        self._loop.call_soon_threadsafe(self._reset_all)

    def tear(self) -> None:
        """Of what comes next, pass on half and then end all connections."""
        self._tears = True

    def delay(self, seconds: float) -> None:
        """Hold everything back for so long on its way, from now on; 0 for no more."""
        self._delay_s = seconds

    def stall(self) -> None:
        """Pass nothing on, and end nothing, until `flow`: nobody is told that nobody listens."""
        self._loop.call_soon_threadsafe(self._passing.clear)

    def flow(self) -> None:
        """Pass on what was held back, and go on."""
        self._delay_s, self._tears = 0.0, False
        self._loop.call_soon_threadsafe(self._passing.set)

    def close(self) -> None:
        """Cut everything and listen no more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(START_TIMEOUT_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._passing = asyncio.Event()
        self._passing.set()
        server = await asyncio.start_server(self._connected, HOST, 0, backlog=1000)
        self._listening.set_result(server.sockets[0].getsockname()[1])
        await self._stopped.wait()
        server.close()
        self._cut()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _cut(self) -> None:
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()

    def _reset_all(self) -> None:
        for pair in self._pairs:
            _reset(*pair)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # By close(): the streams of Python 3.11 would print it as an error of theirs.
        with contextlib.suppress(asyncio.CancelledError):
            await self._pass_on(reader, writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind_reader, behind_writer = await asyncio.open_connection(HOST, self._target_port)
        except OSError:
            _reset(writer)
            return
        pair = (writer, behind_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._copy(reader, behind_writer), self._copy(behind_reader, writer)
            )
        except OSError:
            _reset(*pair)
        finally:
            self._pairs.discard(pair)
            for each in pair:
                each.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._passing.wait()
            if self._tears:
                self._tears = False
                writer.write(data[: len(data) // 2])
                await writer.drain()
                self._cut()
                return
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reset(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        # One that is closed already has no socket to ask.
        if not writer.transport.is_closing():
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            writer.transport.abort()
