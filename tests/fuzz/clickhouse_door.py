"""Bytes at the socket of the ClickHouse door, in a process of its own with the engine behind it."""

from __future__ import annotations

import atexit
import re
import tempfile
import urllib.request
from functools import cache
from pathlib import Path

from pipeline.embedded.clickhouse.blocks import BlockEncoder
from tests.fuzz.sockets import told
from tests.kit.door import Door
from tests.kit.processes import resident_bytes

PROMISE = "every refusal has ClickHouse's number; the door stays up and holds bounded memory"

GROWTH_BYTES_MAX = 1500 << 20
_WAIT_S = 0.3
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")
_HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
_FORM = "multipart/form-data; boundary=b"


def seeds() -> list[bytes]:
    blocks = BlockEncoder().compress(b"1\n2\n")
    form = (
        b'--b\r\nContent-Disposition: form-data; name="t"; filename="t"\r\n\r\n1\n2\r\n'
        b'--b\r\nContent-Disposition: form-data; name="t_structure"\r\n\r\na Int32\r\n--b--\r\n'
    )
    insert = "/?query=INSERT+INTO+FUNCTION+null('a+Int32')+FORMAT+TSV&"
    return [
        _request("GET", "/ping"),
        _request("GET", "/?query=SELECT+1+FORMAT+JSON"),
        _request("POST", "/", b"SELECT {x:Int32} FORMAT Native", {"X-ClickHouse-Format": "TSV"}),
        _request("POST", insert + "decompress=1", blocks),
        _request("POST", insert, b"\x1f\x8b\x08\0", {"Content-Encoding": "gzip"}),
        _request("POST", "/?query=SELECT+*+FROM+t&compress=1", form, {"Content-Type": _FORM}),
        _request("POST", "/", b"--x", {"Content-Type": "multipart/form-data"}),
        _request("POST", "/", b"--b\r\n\r\n", {"Content-Type": _FORM}),
        _request("POST", "/", b"", {"Content-Type": "multipart/form-data; boundary=" + "b" * 80}),
        _request("POST", "/?session_id=a&session_timeout=1", b"SET max_threads = 'x'"),
        _request("POST", "/?client_protocol_version=54454", b"SELECT 1 FORMAT Native"),
        _HEAD + b"Transfer-Encoding:chunked\r\n\r\n7\r\nSELECT1\r\n0\r\n\r\n",
        _HEAD + b"Content-Length: 99999999999\r\n\r\nSELECT 1",
    ]


def _request(
    method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> bytes:
    given = {"Host": "localhost", "Connection": "close", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in {**given, **(headers or {})}.items()]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body


@cache
def _door() -> tuple[Door, int]:
    """A door that lives as long as this process, and its memory once it has answered."""
    folder = tempfile.TemporaryDirectory()
    door = Door(Path(folder.name))
    door.start()
    atexit.register(folder.cleanup)
    atexit.register(door.kill)
    _is_up(door)
    return door, resident_bytes(door.process.pid)


def _is_up(door: Door) -> None:
    asked = urllib.request.urlopen(f"{door.url}/?query=SELECT+1", timeout=30)
    with asked as answer:
        assert answer.read() == b"1\n", "the next good client is answered"


def check(data: bytes) -> None:
    door, before = _door()
    port = int(door.url.rpartition(":")[2])
    answer = told("127.0.0.1", port, data, _WAIT_S, says_that_it_ends=False)
    for status in _STATUS.findall(answer):
        refused = b"X-ClickHouse-Exception-Code" in answer
        assert int(status) < 500 or refused or status == b"501", answer[:500]
    _is_up(door)
    assert resident_bytes(door.process.pid) - before < GROWTH_BYTES_MAX
