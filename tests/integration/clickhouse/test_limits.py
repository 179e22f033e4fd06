"""The bounds on queries, connections and headers of the ClickHouse door, reached."""

import re
import resource
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from pipeline.embedded.clickhouse.__main__ import HEADER_BYTES_MAX, LINE_BYTES_MAX
from pipeline.embedded.clickhouse.connections import CONNECTIONS_MAX, REFUSED_MAX, TOLD_S_MAX
from pipeline.embedded.clickhouse.server import QUERIES_MAX, QUERIES_WAITING_MAX
from tests.integration.clickhouse.process import ClickHouse
from tests.kit.processes import PATIENCE_S
from tests.kit.waiting import eventually

MORE = 12
PING = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = "Host: localhost\r\nContent-Length: 9\r\n\r\n"
ENDLESS = (
    "GET /?max_block_size=1&query=SELECT+sleepEachRow(0.1)+FROM+numbers(100000) HTTP/1.1\r\n"
    "Host: localhost\r\n\r\n"
)

IMPATIENT = """
import sys
from pipeline.embedded.clickhouse import __main__ as door

door.IDLE_S = 2
door.CONNECTIONS_MAX = 8
sys.exit(door.main())
"""


def running(door: ClickHouse) -> int:
    return told(door, "tally_clickhouse_queries_running")


def waiting(door: ClickHouse) -> int:
    """Those that have a place and have not begun; so has a place that was lost."""
    return told(door, "tally_clickhouse_queries_waiting")


def told(door: ClickHouse, metric: str) -> int:
    text = door.ask("", "GET", "/metrics").text
    found = re.search(rf"^{metric} (\d+)", text, re.MULTILINE)
    assert found is not None, text
    return int(found.group(1))


def is_served(wire: socket.socket) -> bool:
    wire.sendall(PING)
    return wire.recv(1000).endswith(b"Ok.\n")


def is_cut(wire: socket.socket) -> bool:
    try:
        wire.sendall(PING)
    except ConnectionError:
        return True
    return False


@contextmanager
def more_files() -> Iterator[None]:
    """As many as this process may have, for its own side of the connections."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def code(reply_headers: Mapping[str, str]) -> str | None:
    return reply_headers.get("X-ClickHouse-Exception-Code")


def test_of_too_many_queries_the_last_are_refused_and_the_others_answered(
    door: ClickHouse,
) -> None:
    with ExitStack() as held, ThreadPoolExecutor(QUERIES_WAITING_MAX + MORE) as threads:
        for _ in range(QUERIES_MAX):
            wire = socket.create_connection((door.host, door.port), timeout=30)
            held.enter_context(wire).sendall(ENDLESS.encode())
        eventually(lambda: running(door) == QUERIES_MAX, "all threads of the door are taken")
        asked = [threads.submit(door.ask, "SELECT 1") for _ in range(QUERIES_WAITING_MAX + MORE)]
        eventually(lambda: sum(one.done() for one in asked) == MORE, "the last ones are refused")
        assert {code(one.result().headers) for one in asked if one.done()} == {"202"}
        held.close()
        codes = [code(one.result().headers) for one in asked]
    assert codes.count("202") == MORE
    assert codes.count(None) == QUERIES_WAITING_MAX
    assert door.rows("SELECT 1") == "1\n"


def test_no_place_is_lost_when_there_is_no_file_left_for_a_query(door: ClickHouse) -> None:
    """All of them were, after as many such failures, and nobody but /ping was answered any more."""
    asked = QUERIES_MAX + QUERIES_WAITING_MAX + MORE
    limits = resource.prlimit(door.pid, resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        wires = [
            held.enter_context(socket.create_connection((door.host, door.port), timeout=30))
            for _ in range(asked)
        ]
        for wire in wires:
            # Whoever was answered is connected, and needs no file for that any more.
            assert is_served(wire)
        # No number below those that are open already: a file that is closed leaves one free.
        resource.prlimit(door.pid, resource.RLIMIT_NOFILE, (1, limits[1]))
        try:
            for wire in wires:
                wire.sendall(f"POST / HTTP/1.1\r\n{HEAD}SELECT 1;".encode())
            answers = [wire.recv(1000) for wire in wires]
        finally:
            resource.prlimit(door.pid, resource.RLIMIT_NOFILE, limits)
    refused = [one for one in answers if b"X-ClickHouse-Exception-Code: 202" in one]
    assert len(refused) > QUERIES_MAX
    for _ in range(QUERIES_MAX):
        assert door.rows("SELECT 1") == "1\n"
    # Who was answered has its place for a moment longer.
    eventually(lambda: (running(door), waiting(door)) == (0, 0), "all places are free again")


def test_queries_that_are_still_being_sent_take_places_as_well(door: ClickHouse) -> None:
    with ExitStack() as held:
        for _ in range(QUERIES_MAX + QUERIES_WAITING_MAX):
            wire = socket.create_connection((door.host, door.port), timeout=30)
            held.enter_context(wire).sendall(f"POST / HTTP/1.1\r\n{HEAD}SELECT ".encode())
        eventually(lambda: code(door.ask("SELECT 1").headers) == "202", "all places are taken")
        wire.sendall(b"1;")
        assert wire.recv(100).startswith(b"HTTP/1.1 200")
    eventually(lambda: door.ask("SELECT 1").text == "1\n", "who sent half a query has left")


def test_one_connection_more_than_allowed_is_refused_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    with ClickHouse(tmp_path) as door, more_files(), ExitStack() as held:

        def connected() -> socket.socket:
            return held.enter_context(
                socket.create_connection((door.host, door.port), timeout=TOLD_S_MAX * 10)
            )

        wires = [connected() for _ in range(CONNECTIONS_MAX)]
        assert all(map(is_served, wires))
        refused = door.ask("SELECT 1")
        assert (refused.status, code(refused.headers)) == (500, "202")
        assert "Too many connections: 1024 are open. Close some, or " in refused.text
        with pytest.raises(DatabaseError, match="Close some, or send queries over fewer"):
            clickhouse_connect.get_client(host=door.host, port=door.port)
        # Who stays nevertheless is not kept for long, and of these there are not many.
        silent = [connected() for _ in range(REFUSED_MAX + MORE)]
        answers = [wire.recv(5) for wire in silent[:REFUSED_MAX]]
        assert answers == [b"HTTP/"] * REFUSED_MAX
        assert [wire.recv(5) for wire in silent[REFUSED_MAX:]] == [b""] * MORE
        eventually(lambda: is_cut(silent[0]), "who was refused and stays is let go")
        assert all(map(is_served, wires))
        wires.pop().close()
        eventually(lambda: code(door.ask("SELECT 1").headers) is None, "there is room again")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"GET /ping?{'a' * (LINE_BYTES_MAX - 10)} HTTP/1.1\r\n", 200),
        (f"GET /ping?{'a' * LINE_BYTES_MAX} HTTP/1.1\r\n", 400),
        (f"GET /ping HTTP/1.1\r\nX-A: {'a' * (HEADER_BYTES_MAX - 10)}\r\n", 200),
        (f"GET /ping HTTP/1.1\r\nX-A: {'a' * HEADER_BYTES_MAX}\r\n", 400),
        ("GET /ping HTTP/1.1\r\n" + "X-B: b\r\n" * 120, 200),
        ("GET /ping HTTP/1.1\r\n" + "X-B: b\r\n" * 130, 400),
    ],
    ids=["a line", "a longer line", "a header", "a longer header", "headers", "more headers"],
)
def test_a_head_has_a_size(door: ClickHouse, head: str, status: int) -> None:
    with socket.create_connection((door.host, door.port), timeout=30) as wire:
        # It may be refused before its end has been sent.
        with suppress(ConnectionError):
            wire.sendall(f"{head}Host: localhost\r\n\r\n".encode())
        assert int(wire.recv(1000).split()[1]) == status
    assert door.rows("SELECT 1") == "1\n"


def test_a_head_that_never_ends_is_refused_before_more_is_held(door: ClickHouse) -> None:
    before = door.memory_bytes()
    with (
        socket.create_connection((door.host, door.port), timeout=30) as wire,
        pytest.raises(ConnectionError),
    ):
        wire.sendall(b"GET /ping HTTP/1.1\r\nX-A: " + b"a" * (512 << 20))
    assert door.memory_bytes() - before < 128 << 20


def test_who_never_asks_or_stops_in_a_head_is_let_go(tmp_path: Path) -> None:
    with ClickHouse(tmp_path, program=("-c", IMPATIENT)) as door:
        for sent, answered in ((b"", False), (PING[:-2], False), (PING + PING[:-2], True)):
            with socket.create_connection((door.host, door.port), timeout=PATIENCE_S) as wire:
                wire.sendall(sent)
                told = b"".join(iter(partial(wire.recv, 1000), b""))
            assert told.endswith(b"Ok.\n") is answered
        # A query may take longer.
        query = "SELECT sum(sleepEachRow(1)) FROM numbers(5) SETTINGS max_block_size = 1"
        eventually(lambda: asked_in_time(door, query), "a query that takes longer is answered")


def test_who_takes_nothing_of_its_answers_gives_the_place_back(tmp_path: Path) -> None:
    """Nobody else was let in for as long as they stayed; a ping needs no token."""
    with ClickHouse(tmp_path, program=("-c", IMPATIENT)) as door, ExitStack() as held:
        for _ in range(8):
            wire = held.enter_context(socket.socket())
            # Nearly all that is not taken is left to the door.
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.connect((door.host, door.port))
            wire.settimeout(0.1)
            with suppress(TimeoutError, ConnectionError):
                while True:
                    wire.sendall(PING * 1000)
        eventually(lambda: code(door.ask("SELECT 1").headers) is None, "there is room again")


def asked_in_time(door: ClickHouse, query: str) -> bool:
    """False if the connection was closed before, on a busy machine, the query was on it."""
    try:
        return door.rows(query) == "0\n"
    except (ConnectionError, HTTPException):
        return False
