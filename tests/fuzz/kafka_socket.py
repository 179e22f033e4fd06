"""Bytes at the socket of the embedded log, in a process of its own as people run it."""

from __future__ import annotations

import atexit
import struct
import tempfile
from functools import cache
from pathlib import Path

from tests.fuzz import kafka_requests
from tests.fuzz.sockets import told
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import resident_bytes

PROMISE = "the log stays up, answers the next good client, and holds no more memory than before"

GROWTH_BYTES_MAX = 300 << 20
_WAIT_S = 0.02
_GREETING = struct.pack(">ihhih", 10, 18, 0, 5, -1)


def seeds() -> list[bytes]:
    return [
        *kafka_requests.seeds(),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 100 << 20) + bytes(100),
    ]


@cache
def _log() -> tuple[EmbeddedLog, int]:
    """A log that lives as long as this process, and its memory once it has answered."""
    folder = tempfile.TemporaryDirectory()
    log = EmbeddedLog(Path(folder.name))
    log.start()
    atexit.register(folder.cleanup)
    atexit.register(log.kill)
    _is_up(log)
    return log, resident_bytes(log.pid)


def _is_up(log: EmbeddedLog) -> None:
    host, port = log.bootstrap.split(":")
    answer = told(host, int(port), _GREETING, 10.0)
    assert answer[4:10] == struct.pack(">ih", 5, 0), "the next good client is answered"


def check(data: bytes) -> None:
    log, before = _log()
    host, port = log.bootstrap.split(":")
    told(host, int(port), data, _WAIT_S)
    _is_up(log)
    assert resident_bytes(log.pid) - before < GROWTH_BYTES_MAX
