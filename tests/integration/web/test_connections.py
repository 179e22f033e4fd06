"""The bounds on connections of a web process and on what they hold, reached over real sockets."""

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest

from pipeline.web.connection import HEAD_BYTES_MAX
from tests.kit.processes import PATIENCE_S, Process, free_port, resident_bytes
from tests.kit.tally import START_TIMEOUT_S
from tests.kit.waiting import eventually

BY_NUMBER = ("serve.CONNECTIONS_MAX, serve.UNSERVED_MAX = 5, 3", 5, 3)
BY_FILES = ("resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))", 100, 10)
PROGRAM = """
import resource
from pipeline.clock import SystemClock
from pipeline.web import serve
from schemas.settings import load_settings

{bound}
serve.serve(load_settings(), SystemClock())
"""
ASKED = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADED = ASKED[:-2] + (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CHUNKED = (
    b"POST /api/v1/increments HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@contextmanager
def web(folder: Path, bound: str = "") -> Iterator[tuple[int, int]]:
    """Where a web process listens whose servers are away, and its id. `bound` is what it has."""
    port = free_port()
    env = {
        "TALLY_WEB": f"127.0.0.1:{port}",
        "TALLY_KAFKA": f"127.0.0.1:{free_port()}",
        "TALLY_CLICKHOUSE": f"http://127.0.0.1:{free_port()}",
    }
    program = [sys.executable, "-c", PROGRAM.format(bound=bound)]
    with Process(program, output_path=folder / "out", env=env) as process:
        process.wait_for_line("^web ready: ", timeout_s=START_TIMEOUT_S)
        yield port, process.pid


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def status(wire: socket.socket) -> int:
    """Of the answer, which is read whole; 0 where the connection is closed without one."""
    try:
        wire.sendall(ASKED)
        with HTTPResponse(wire) as answer:
            answer.begin()
            answer.read()
            return answer.status
    except ConnectionError:
        return 0


@pytest.mark.parametrize(
    ("bound", "served", "unserved"), [BY_NUMBER, BY_FILES], ids=["by number", "by files"]
)
def test_connections_past_their_bound_are_refused_and_the_others_served(
    tmp_path: Path, bound: str, served: int, unserved: int
) -> None:
    with web(tmp_path, bound) as (port, _):
        with ExitStack() as held:
            wires = [held.enter_context(connected(port)) for _ in range(served + unserved)]
            with connected(port) as further:
                assert further.recv(1) == b""
            assert status(wires[0]) == 200
            assert status(wires.pop()) == 503
            with connected(port) as next_one:
                assert status(next_one) == 503
            assert [status(wire) for wire in wires[:served]] == [200] * served
        eventually(lambda: serves(port, served), "the places are free again")


def test_who_never_asks_stops_in_a_head_or_takes_no_answer_gives_the_place_back(
    tmp_path: Path,
) -> None:
    with web(tmp_path, f"{BY_NUMBER[0]}; serve.IDLE_S = 1") as (port, _), ExitStack() as held:
        for sent in (b"", b"GET /hea", ASKED[:-2], ASKED + ASKED[:-2]):
            wire = held.enter_context(connected(port))
            wire.sendall(sent)
            while wire.recv(1 << 20):
                pass
        for _ in range(BY_NUMBER[1] + BY_NUMBER[2]):
            untaken = held.enter_context(connected(port))
            untaken.sendall(ASKED * 200)
        eventually(lambda: serves(port, BY_NUMBER[1]), "the places are free again")


@pytest.mark.parametrize(
    "begin",
    [b"GET /health?", b"GET /health HTTP/1.1\r\nX-A: ", CHUNKED + b"0\r\nX-A: "],
    ids=["a line", "a header", "a trailer"],
)
def test_a_head_that_never_ends_is_refused_before_more_is_held(
    tmp_path: Path, begin: bytes
) -> None:
    with web(tmp_path) as (port, pid):
        before = resident_bytes(pid)
        with connected(port) as wire, pytest.raises(ConnectionError):
            wire.sendall(begin + b"a" * (64 << 20))
        assert resident_bytes(pid) - before < 16 << 20
        assert serves(port, 1)


def test_who_sends_too_large_a_head_is_told_so(tmp_path: Path) -> None:
    with web(tmp_path) as (port, _), connected(port) as wire:
        wire.sendall(b"GET /health?" + b"a" * HEAD_BYTES_MAX)
        assert wire.recv(1 << 10).startswith(b"HTTP/1.1 400 ")


def test_who_asks_for_a_websocket_is_answered_over_http(tmp_path: Path) -> None:
    """It took the connection from under the requests that were being answered on it."""
    with web(tmp_path) as (port, _), connected(port) as wire:
        wire.sendall(UPGRADED)
        assert wire.recv(1 << 10).startswith(b"HTTP/1.1 200 ")


def serves(port: int, count: int) -> bool:
    """Whether so many are served at the same time."""
    with ExitStack() as held:
        wires = [held.enter_context(connected(port)) for _ in range(count)]
        return [status(wire) for wire in wires] == [200] * count
