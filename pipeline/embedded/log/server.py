"""Connections: frames in, answers out, in order, with bounds on what a peer can make us hold."""

import asyncio
import logging
import socket
import struct
from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.handlers.apis import APIS, FLEXIBLE_FROM, NAMES, Api
from pipeline.embedded.log.handlers.cluster import announced
from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.handlers.errors_in import first_error
from pipeline.embedded.log.protocol.frames import SHARED_BYTES, FrameReader
from pipeline.embedded.log.protocol.wire import (
    API_VERSIONS_KEY,
    Request,
    read_body,
    read_header,
    write_answer,
)
from pipeline.errors import BadInputError
from pipeline.metrics.definitions import log as metric

logger = logging.getLogger(__name__)

FRAMES_WAITING_MAX = 8
# Requests that were not taken up yet, of all connections together. A peer that needs more than
# its share when this is used up is let go, so that the others can be served.
UNREAD_BYTES_MAX = 512 * 1024 * 1024
SHARE_BYTES = 64 * 1024
HELD_BYTES_MAX = 4 * 1024 * 1024
_SIZE = struct.Struct(">i")
_MALFORMED = "malformed"
_REQUESTS = {key: metric.REQUESTS(api=name) for key, name in NAMES.items()}


class Peers:
    """Who is connected, and how much of their requests waits to be taken up."""

    def __init__(self, connections_max: int) -> None:
        self.connections: set[Connection] = set()
        self.connections_max = connections_max
        self.unread_bytes = 0
        self.unread_frames = 0
        self.scratch = memoryview(bytearray(SHARED_BYTES))

    def may_hold(self, share_bytes: int) -> bool:
        """Whether a connection that holds so much may go on reading."""
        return share_bytes <= SHARE_BYTES or self.unread_bytes <= UNREAD_BYTES_MAX


class Connection(asyncio.BufferedProtocol):
    """One peer. Requests are answered one after the other, as the protocol promises."""

    def __init__(self, broker: Broker, peers: Peers) -> None:
        self._broker = broker
        self._peers = peers
        self._reader = FrameReader(peers.scratch)
        self._frames: asyncio.Queue[memoryview] = asyncio.Queue()
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None]
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_paused = False
        self._held_bytes = 0
        self._host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("socket")
        if peer is not None:
            # A peer whose machine died is found out, and its place becomes free.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._host = "/" + str((transport.get_extra_info("peername") or ("",))[0])
        self._peers.connections.add(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())
        if len(self._peers.connections) > self._peers.connections_max:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._peers.connections.discard(self)
        self._hold(-self._held_bytes)
        self._peers.unread_frames -= self._frames.qsize()
        self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        partial_before = self._reader.held_bytes
        try:
            frames = self._reader.received(nbytes)
        except BadInputError as error:
            logger.info("closing %s: %s", self._host, error)
            self._transport.abort()
            return
        for frame in frames:
            self._frames.put_nowait(frame)
        self._peers.unread_frames += len(frames)
        self._hold(sum(map(len, frames)) + self._reader.held_bytes - partial_before)
        if not self._peers.may_hold(self._held_bytes):
            self._transport.abort()
        waiting = self._frames.qsize()
        is_full = waiting >= FRAMES_WAITING_MAX or (waiting and self._held_bytes > HELD_BYTES_MAX)
        if is_full and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _hold(self, count: int) -> None:
        self._held_bytes += count
        self._peers.unread_bytes += count

    async def _serve(self) -> None:
        try:
            while True:
                frame = await self._frames.get()
                self._peers.unread_frames -= 1
                self._hold(-len(frame))
                if self._is_paused and self._frames.qsize() < FRAMES_WAITING_MAX // 2:
                    self._is_paused = False
                    self._transport.resume_reading()
                pieces = await self._answer(frame)
                if pieces:
                    size = sum(map(len, pieces))
                    self._transport.write(b"".join([_SIZE.pack(size), *pieces]))
                    await self._writable.wait()
        except BadInputError as error:
            logger.info("closing %s: %s", self._host, error)
        except Exception:
            logger.exception("closing %s after an error of ours", self._host)
        finally:
            self._transport.close()

    async def _answer(self, frame: memoryview) -> list[bytes]:
        request = read_header(frame, FLEXIBLE_FROM)
        api = APIS.get(request.api_key)
        if api is None:
            raise BadInputError(f"request {request.api_key} is not supported")
        meter, name = self._broker.meter, NAMES[request.api_key]
        meter.add(_REQUESTS[request.api_key])
        try:
            return await self._answer_to(api, request)
        except BadInputError:
            meter.add(metric.REQUEST_ERRORS(api=name, error=_MALFORMED))
            raise

    async def _answer_to(self, api: Api, request: Request) -> list[bytes]:
        if not api.version_min <= request.version <= api.version_max:
            if request.api_key == API_VERSIONS_KEY:
                return [_unsupported_api_versions(request)]
            raise BadInputError(f"request {request.api_key} has no version {request.version} here")
        if api.raw_handler is not None:
            return await api.raw_handler(self._broker, request)
        assert api.handler is not None
        context = Context(self._broker, request.version, request.client_id, self._host)
        answer = await api.handler(context, read_body(request))
        if (code := first_error(answer)) is not None:
            series = metric.REQUEST_ERRORS(api=NAMES[request.api_key], error=code.name)
            self._broker.meter.add(series)
        return [write_answer(request.api_key, request.version, request.correlation_id, answer)]

    async def close(self) -> None:
        """Let the peer go, at once."""
        self._transport.abort()
        self._task.cancel()
        await asyncio.wait([self._task])


def _unsupported_api_versions(request: Request) -> bytes:
    """Version 0 of the answer, which every client can read, and with it tries again."""
    body: dict[str, Any] = {"error_code": ErrorCode.unsupported_version, "api_keys": announced()}
    return write_answer(API_VERSIONS_KEY, 0, request.correlation_id, body)


class Server:
    """The listening socket and its connections."""

    def __init__(self, broker: Broker, connections_max: int) -> None:
        self._broker = broker
        peers = self._peers = Peers(connections_max)
        meter = broker.meter
        meter.read(metric.CONNECTIONS(), lambda: len(peers.connections))
        meter.read(metric.UNREAD_BYTES(), lambda: peers.unread_bytes)
        meter.read(metric.REQUESTS_WAITING(waits_for="turn"), lambda: peers.unread_frames)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """The port that is listened on; raises OSError when it is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._broker, self._peers), host, port, backlog=1024
        )
        bound = int(self._server.sockets[0].getsockname()[1])
        self._broker.host, self._broker.port = host, bound
        return bound

    async def stop(self) -> None:
        """Stop listening and let all peers go."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(connection.close() for connection in list(self._peers.connections)))
