"""Answers as a client reads them from a connection, each of which must be well-formed. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [A-Za-z ]+")
_HEADER = re.compile(rb"([a-z-]+): ([\x20-\x7e]*)")
_CHUNK = re.compile(rb"([0-9a-f]+)\r\n")

TOLD = b"told"
"""The header in which the app tells what it was asked, since an answer to HEAD has no body."""


class Answer(NamedTuple):
    """`told` is empty where it is not the app who answers."""

    status: int
    told: bytes


def answers_of(written: bytes) -> list[Answer]:
    """Interim ones as well. Fails where something is no answer, or none in whole."""
    found, at = [], 0
    while at < len(written):
        end = written.find(b"\r\n\r\n", at)
        assert end >= 0, "a head ends"
        line, *lines = written[at:end].split(b"\r\n")
        at = end + 4
        status = _STATUS.fullmatch(line)
        assert status, line
        headers = dict(_header(one) for one in lines)
        answer = Answer(int(status[1]), headers.get(TOLD, b""))
        if answer.status >= 200 and not answer.told.startswith(b"HEAD "):
            body, at = _body(headers, written, at)
            assert answer.told in (b"", body), "a body is that of its own head"
        found.append(answer)
    return found


def _header(line: bytes) -> tuple[bytes, bytes]:
    parts = _HEADER.fullmatch(line)
    assert parts, line
    return parts[1], parts[2]


def _body(headers: dict[bytes, bytes], written: bytes, at: int) -> tuple[bytes, int]:
    """It, and where it ends."""
    if headers.get(b"transfer-encoding") != b"chunked":
        end = at + int(headers[b"content-length"])
        assert end <= len(written), "a body is as long as its head says"
        return written[at:end], end
    body = b""
    while head := _CHUNK.match(written, at):
        begin, end = head.end(), head.end() + int(head[1], 16)
        assert written[end : end + 2] == b"\r\n", "a chunk is as long as its head says"
        body, at = body + written[begin:end], end + 2
        if begin == end:
            return body, at
    raise AssertionError("the last chunk is missing")
