"""The bound on connections of a web process, reached over real sockets."""

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.processes import Process, free_port
from tests.kit.tally import START_TIMEOUT_S
from tests.kit.waiting import eventually

SERVED, UNSERVED = 5, 3
PROGRAM = f"""
from pipeline.clock import SystemClock
from pipeline.web import serve
from schemas.settings import load_settings

serve.CONNECTIONS_MAX, serve.UNSERVED_MAX = {SERVED}, {UNSERVED}
serve.serve(load_settings(), SystemClock())
"""
ASKED = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Where a web process listens whose servers are away."""
    port = free_port()
    env = {
        "TALLY_WEB": f"127.0.0.1:{port}",
        "TALLY_KAFKA": f"127.0.0.1:{free_port()}",
        "TALLY_CLICKHOUSE": f"http://127.0.0.1:{free_port()}",
    }
    with Process([sys.executable, "-c", PROGRAM], output_path=tmp_path / "out", env=env) as process:
        process.wait_for_line("^web ready: ", timeout_s=START_TIMEOUT_S)
        yield port


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def status(wire: socket.socket) -> int:
    """Of the answer; 0 where the connection is closed without one."""
    try:
        wire.sendall(ASKED)
        answer = wire.recv(1 << 20)
    except ConnectionError:
        return 0
    return int(answer.split()[1]) if answer else 0


def test_connections_past_their_bound_are_refused_and_the_others_served(port: int) -> None:
    with ExitStack() as held:
        wires = [held.enter_context(connected(port)) for _ in range(SERVED + UNSERVED)]
        with connected(port) as further:
            assert further.recv(1) == b""
        assert status(wires.pop()) == 503
        with connected(port) as next_one:
            assert status(next_one) == 503
    eventually(lambda: serves(port, SERVED), "the places are free again")


def serves(port: int, count: int) -> bool:
    """Whether so many are served at the same time."""
    with ExitStack() as held:
        wires = [held.enter_context(connected(port)) for _ in range(count)]
        return [status(wire) for wire in wires] == [200] * count
