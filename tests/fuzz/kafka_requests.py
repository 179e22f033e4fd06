"""Requests of the Kafka protocol, as a connection of the embedded log hands them on.

Each is answered by the real handlers, on a broker of its own in a temporary folder, which lives as
long as the process. An input is frames one after the other, each with its length before it.
"""

from __future__ import annotations

import asyncio
import atexit
import struct
import tempfile
from functools import cache
from pathlib import Path

from pipeline.clock import SystemClock
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.handlers.apis import APIS
from pipeline.embedded.log.protocol.frames import FrameReader
from pipeline.embedded.log.server import Connection, Peers
from pipeline.errors import BadInputError
from tests.unit.embedded_log.batches import make_batch

PROMISE = "a request is answered or its connection closed by BadInputError; topics and memory hold"

ANSWER_BYTES_MAX = 64 << 20
_WAIT_S = 0.002
_RECORDS_MAX = 1_000
_REQUESTS_MAX = 16
_TOPIC = b"kept"


def seeds() -> list[bytes]:
    found = [_frame(api, version) for api, one in APIS.items() for version in _versions(api, one)]
    produced = bytes(make_batch([(b"k", b"v"), (None, b"w")]))
    produce = struct.pack(">hhii", -1, 1, 1000, 1) + _text(_TOPIC)
    produce += struct.pack(">iii", 1, 0, len(produced)) + produced
    fetch = struct.pack(">iiiibi", -1, 5, 1, 1 << 20, 0, 1) + _text(_TOPIC)
    fetch += struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    join = _text(b"g") + struct.pack(">ii", 6000, 6000) + _text(b"") + _text(b"consumer")
    join += struct.pack(">i", 1) + _text(b"range") + struct.pack(">i", 2) + b"ab"
    metadata = struct.pack(">i", 2) + _text(_TOPIC) + _text(b"made") + b"\1"
    offsets = struct.pack(">ii", -1, 1) + _text(_TOPIC) + struct.pack(">iiq", 1, 0, 1005)
    commit = _text(b"g") + struct.pack(">i", -1) + _text(b"") + struct.pack(">qi", -1, 1)
    commit += _text(_TOPIC) + struct.pack(">iiq", 1, 0, 1) + _text(b"note")
    created = struct.pack(">i", 1) + _text(b"new") + struct.pack(">ihii", 1, 1, 0, 1)
    created += _text(b"cleanup.policy") + _text(b"compact") + struct.pack(">ib", 1000, 0)
    named = struct.pack(">i", 1) + b"\2" + _text(_TOPIC) + struct.pack(">i", -1)
    bodies = [(0, 3, produce), (1, 4, fetch), (11, 2, join), (3, 4, metadata), (2, 1, offsets)]
    bodies += [(8, 2, commit), (19, 2, created), (32, 1, named + b"\0")]
    right = [_frame(api, version, body) for api, version, body in bodies]
    return [
        b"".join(found[:_REQUESTS_MAX]),
        b"".join(found[_REQUESTS_MAX:]),
        *right,
        b"".join(right),
    ]


def _versions(_api: int, one: object) -> tuple[int, int]:
    return one.version_min, one.version_max  # type: ignore[attr-defined]  # an Api


def _text(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _frame(api: int, version: int, body: bytes = bytes(40)) -> bytes:
    request = struct.pack(">hhih", api, version, 7, -1) + body
    return struct.pack(">i", len(request)) + request


class _Log:
    """A broker and one connection to it, on an event loop that nobody else has."""

    def __init__(self) -> None:
        # In memory where that is to be had: what is looked for is not on the disk.
        memory = Path("/dev/shm")
        self._folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.loop = asyncio.new_event_loop()
        self.broker = Broker(Path(self._folder.name), SystemClock(), Fsync.SECOND)
        self.connection = Connection(self.broker, Peers(10))
        atexit.register(self._folder.cleanup)
        atexit.register(self.loop.close)

    def ask(self, frame: memoryview) -> list[bytes]:
        """The answer; empty for one that would come later. Raises BadInputError."""
        return self.loop.run_until_complete(self._asked(frame))

    async def _asked(self, frame: memoryview) -> list[bytes]:
        try:
            async with asyncio.timeout(_WAIT_S):
                return await self.connection._answer(frame)
        except TimeoutError:
            return []

    def tidy_up(self) -> None:
        """Groups and topics that inputs made are let go, so that one input does not feed on
        another's; the topic that is kept is there again."""
        self.broker.coordinator.groups.clear()
        kept = self.broker.topics.get(_TOPIC.decode())
        is_kept = kept is not None and kept.partitions[0].end_offset < _RECORDS_MAX
        for topic in list(self.broker.topics.values()):
            if not (topic is kept and is_kept):
                self.broker.delete_topic(topic)
        if not is_kept:
            self.broker.create_topic(_TOPIC.decode(), 2, {})


@cache
def _log() -> _Log:
    return _Log()


def check(data: bytes) -> None:
    log = _log()
    log.tidy_up()
    try:
        for number, frame in enumerate(_frames(data)):
            if number == _REQUESTS_MAX:
                break
            answer = log.ask(frame)
            assert sum(map(len, answer)) <= ANSWER_BYTES_MAX
    except BadInputError as error:
        assert str(error)
    greeting = log.ask(memoryview(bytearray(struct.pack(">hhih", 18, 0, 9, -1))))
    assert greeting[0][:6] == struct.pack(">ih", 9, 0), "the next good client is answered"


def _frames(data: bytes) -> list[memoryview]:
    """As a connection cuts what it receives. Raises BadInputError."""
    scratch = memoryview(bytearray(1 << 16))
    reader, found, at = FrameReader(scratch), [], 0
    while at < len(data):
        room = reader.buffer()
        piece = data[at : at + len(room)]
        room[: len(piece)] = piece
        found += reader.received(len(piece))
        at += len(piece)
    return found
