"""Raw bytes to a server that runs, for targets that test the whole of it."""

from __future__ import annotations

import contextlib
import select
import socket

ANSWER_BYTES_MAX = 4 << 20


def told(
    host: str, port: int, data: bytes, wait_s: float, *, says_that_it_ends: bool = True
) -> bytes:
    """What a server answers to bytes after which nothing comes, until it closes or is silent."""
    with socket.create_connection((host, port), timeout=10.0) as connection:
        with contextlib.suppress(ConnectionError, TimeoutError):
            connection.sendall(data)
            if says_that_it_ends:
                connection.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while len(answer) < ANSWER_BYTES_MAX:
            ready, _, _ = select.select([connection], [], [], wait_s)
            try:
                piece = connection.recv(65_536) if ready else b""
            except ConnectionError:
                break
            if not piece:
                break
            answer += piece
        return bytes(answer)
