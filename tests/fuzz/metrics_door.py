"""Bytes at the port of TALLY_METRICS, as a client sends them that then says nothing more."""

from __future__ import annotations

import io
import re
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from pipeline.metrics.definitions.log import LOG
from pipeline.metrics.server import _Handler
from pipeline.metrics.values import Metrics

if TYPE_CHECKING:
    import socket

    from pipeline.metrics.server import _Server

PROMISE = "one answer that is well-formed, or none to what is no request"

_ASKED = re.compile(
    rb"GET /(metrics|health)(?:\?[!-~]*)? HTTP/1\.[01]\r\n((?:[A-Za-z]+:[ -~]*\r\n)*)\r\n"
)
"""What is to be answered with 200, whoever else is."""

_VERSIONED = re.compile(rb"[!-~]+ [!-~]+ HTTP/1\.[01]\r?\n")
"""What is to be answered with a head; others are taken for HTTP/0.9, which has none."""

_HEADERS_MAX = 90
_STATUS = re.compile(rb"HTTP/1\.0 (200|404|431|501) [ -~\x80-\xff]*")
_HEADER = re.compile(rb"([A-Za-z-]+): ([ -~]*)")
_BODIES = {b"metrics": b"# HELP ", b"health": b"ok\n"}


def seeds() -> list[bytes]:
    open_metrics = b"application/openmetrics-text;version=%s;escaping=%s;q=0.5"
    return [
        b"",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /health?x=1 HTTP/1.0\r\n\r\nGET /health HTTP/1.0\r\n\r\n",
        b"GET /metrics\r\n",
        b"GET /metrics HTTP/1.1\r\nAccept: %s,*/*\r\n\r\n" % (open_metrics % (b"1.0.0", b"dots")),
        b"GET /metrics HTTP/1.1\r\nAccept: %s\r\n\r\n" % (open_metrics % (b"abc", b"x")),
        b"GET /metrics HTTP/1.1\r\nAccept: text/plain;version=1.0.0.x\r\n y: z\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nAccept: \xc3\xa9=?utf-8?q?=41?=\r\nAccept: b\r\n c\r\nno\r\n",
        b"HEAD //health HTTP/1.1\r\n\r\n",
        b"GET /<b>%0d%0a HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n",
        b"G\xc9T / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / HTTP/1.1.1\r\n\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n",
        b"GET /health HTTP/1.1\r\nA: " + b"b" * 9_000,
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    ]


@cache
def _metrics() -> Metrics:
    return Metrics(LOG)


def check(data: bytes) -> None:
    client = _Client(data)
    server = SimpleNamespace(metrics=_metrics(), trouble=lambda: None)
    _Handler(cast("socket.socket", client), ("127.0.0.1", 5), cast("_Server", server))
    answer = bytes(client.answer)
    assert bool(answer) == bool(data.partition(b"\n")[0].decode("latin-1").split())
    if answer and _VERSIONED.match(data):
        status, body = _read(answer, is_head=data.startswith(b"HEAD "))
        asked = _ASKED.match(data)
        if asked and asked[2].count(b"\n") <= _HEADERS_MAX:
            assert status == b"200"
            assert body.startswith(_BODIES[asked[1]])


def _read(answer: bytes, *, is_head: bool) -> tuple[bytes, bytes]:
    """Its status and its body, if it is well-formed."""
    head, end, body = answer.partition(b"\r\n\r\n")
    assert end, "a head ends"
    line, *lines = head.split(b"\r\n")
    status = _STATUS.fullmatch(line)
    assert status, line
    headers = {}
    for one in lines:
        header = _HEADER.fullmatch(one)
        assert header, one
        headers[header[1]] = header[2]
    assert len(body) == (0 if is_head else int(headers[b"Content-Length"]))
    if headers.get(b"Content-Type", b"").startswith(b"application/openmetrics-text"):
        assert body.endswith(b"# EOF\n")
    return status[1], body


class _Client:
    """A socket: all that it will ever send has come."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent
        self.answer = bytearray()

    def makefile(self, _mode: str, _buffering: int) -> io.BytesIO:
        return io.BytesIO(self._sent)

    def settimeout(self, _seconds: float) -> None:
        """Nothing here takes time."""

    def sendall(self, data: bytes) -> None:
        self.answer += data
