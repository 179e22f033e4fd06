"""The process: its start, its stop, and what it says when it cannot start."""

import socket
import subprocess
from pathlib import Path

from tests.integration.clickhouse.process import START_WITHIN_S, ClickHouse, command


def refused(data: Path, port: int = 0, *options: str) -> str:
    """What a process that must not start writes to stderr."""
    done = subprocess.run(
        [*command(data, port), *options],
        capture_output=True,
        text=True,
        timeout=START_WITHIN_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_it_stops_cleanly_and_keeps_its_tables(tmp_path: Path) -> None:
    with ClickHouse(tmp_path / "data") as first:
        first.rows("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
        first.rows("INSERT INTO t VALUES (5)")
        assert first.stop() == (0, "")
    with ClickHouse(tmp_path / "data") as second:
        assert second.rows("SELECT a FROM t") == "5\n"


def test_a_folder_in_use_is_refused_in_one_line(door: ClickHouse) -> None:
    words = refused(door.data)
    assert words.count("\n") == 1
    assert "in use" in words
    assert door.rows("SELECT 1") == "1\n"


def test_a_taken_port_is_refused_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = refused(tmp_path / "data", taken.getsockname()[1])
    assert words.count("\n") == 1
    assert "cannot listen" in words


def test_an_address_that_others_reach_needs_tokens(tmp_path: Path) -> None:
    words = refused(tmp_path / "data", 0, "--host", "0.0.0.0")
    assert words.count("\n") == 1
    assert "without tokens: give --tokens" in words
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    words = refused(tmp_path / "file" / "data")
    assert words.count("\n") == 1


def test_a_stop_does_not_wait_for_endless_queries(tmp_path: Path) -> None:
    with ClickHouse(tmp_path / "data") as door:
        url = "/?query=SELECT+number+FROM+numbers(100000000000)"
        with socket.create_connection((door.host, door.port), timeout=10) as wire:
            wire.sendall(f"GET {url} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert wire.recv(100).startswith(b"HTTP/1.1 200")
            code, _ = door.stop()
        assert code == 0
