"""The runner of migrations on a real server: the embedded ClickHouse, as a process of its own."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client

from pipeline.errors import OperatorError, TryAgainError
from schemas.migrate import migrate, pending
from tests.kit.processes import Process

FIRST = "CREATE TABLE IF NOT EXISTS tally.numbers (n UInt32) ENGINE = MergeTree ORDER BY n;\n"
SECOND = """
-- A file with two statements; the second one has a semicolon in quotes.
ALTER TABLE tally.numbers ADD COLUMN IF NOT EXISTS word String DEFAULT ';
';
CREATE OR REPLACE VIEW tally.words AS SELECT word FROM tally.numbers;
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with started(tmp_path_factory.mktemp("clickhouse")) as process:
        yield process


@contextmanager
def started(folder: Path) -> Iterator[Process]:
    module = [sys.executable, "-m", "pipeline.embedded.clickhouse"]
    options = ["--data", str(folder / "data"), "--host", "127.0.0.1", "--port", "0"]
    with Process([*module, *options], output_path=folder / "output.log") as process:
        process.wait_for_line(r"^clickhouse ready on ", timeout_s=60)
        yield process


@pytest.fixture
def client(server: Process) -> Iterator[Client]:
    with connected(server) as made:
        made.command("DROP DATABASE IF EXISTS tally SYNC")
        yield made


def connected(server: Process) -> Client:
    address = server.wait_for_line(r"^clickhouse ready on (.+):([0-9]+)$")
    return clickhouse_connect.get_client(
        host=address[1], port=int(address[2]), autogenerate_session_id=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_numbers.sql").write_text(FIRST)
    return tmp_path


def recorded(client: Client) -> list[int]:
    rows = client.query("SELECT number FROM tally.migrations ORDER BY number").result_rows
    return [row[0] for row in rows]


def test_each_file_is_applied_once(client: Client, folder: Path) -> None:
    assert [one.number for one in pending(client, folder)] == [1]
    assert [one.file for one in migrate(client, folder)] == ["0001_numbers.sql"]
    (folder / "0002_words.sql").write_text(SECOND)
    assert [one.number for one in pending(client, folder)] == [2]
    assert [one.number for one in migrate(client, folder)] == [2]
    assert migrate(client, folder) == []
    assert recorded(client) == [1, 2]
    client.command("INSERT INTO tally.numbers (n) VALUES (1)")
    assert client.query("SELECT word FROM tally.words").result_rows == [(";\n",)]


def test_asking_what_is_pending_changes_nothing(client: Client, folder: Path) -> None:
    pending(client, folder)
    assert client.query("SELECT count() FROM system.databases WHERE name = 'tally'").first_row == (
        0,
    )


def test_a_file_changed_after_it_was_applied_is_refused(client: Client, folder: Path) -> None:
    migrate(client, folder)
    (folder / "0001_numbers.sql").write_text(FIRST + "SELECT 1;\n")
    with pytest.raises(OperatorError, match=r"another Tally, whose 0001_numbers\.sql differs"):
        migrate(client, folder)


def test_a_file_renamed_after_it_was_applied_is_refused(client: Client, folder: Path) -> None:
    migrate(client, folder)
    (folder / "0001_numbers.sql").rename(folder / "0001_figures.sql")
    with pytest.raises(OperatorError, match=r"whose 0001_figures\.sql differs"):
        pending(client, folder)


def test_an_older_tally_on_a_newer_database_is_refused(client: Client, folder: Path) -> None:
    (folder / "0002_words.sql").write_text(SECOND)
    migrate(client, folder)
    (folder / "0002_words.sql").unlink()
    with pytest.raises(OperatorError, match=r"migration 0002 \(words\), which this Tally does not"):
        migrate(client, folder)


def test_a_file_put_in_before_applied_ones_is_refused(client: Client, folder: Path) -> None:
    (folder / "0002_words.sql").write_text(SECOND)
    migrate(client, folder)
    client.command("DELETE FROM tally.migrations WHERE number = 1")
    with pytest.raises(
        OperatorError, match=r"0001_numbers\.sql was never applied, though 0002 was"
    ):
        migrate(client, folder)


def test_a_file_that_was_run_and_not_recorded_is_run_again(client: Client, folder: Path) -> None:
    (folder / "0002_words.sql").write_text(SECOND)
    migrate(client, folder)
    # The state a process leaves that is killed between the last statement and the record.
    client.command("DELETE FROM tally.migrations WHERE number = 2")
    assert [one.number for one in migrate(client, folder)] == [2]
    assert recorded(client) == [1, 2]


def test_a_statement_that_fails_is_named_and_what_went_before_stays(
    client: Client, folder: Path
) -> None:
    (folder / "0002_broken.sql").write_text("SELECT 1;\nSELECT nonsense FROM tally.numbers;\n")
    with pytest.raises(
        OperatorError, match=r"0002_broken\.sql, statement 2: ClickHouse refuses it"
    ) as told:
        migrate(client, folder)
    assert "\n" not in str(told.value)
    assert recorded(client) == [1]
    (folder / "0002_broken.sql").write_text("SELECT 1;\n")
    assert [one.number for one in migrate(client, folder)] == [2]


def test_processes_that_migrate_at_once_agree(
    client: Client, server: Process, folder: Path
) -> None:
    (folder / "0002_words.sql").write_text(SECOND)

    def run(_: int) -> None:
        with connected(server) as own:
            migrate(own, folder)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert set(recorded(client)) == {1, 2}
    assert pending(client, folder) == []


def test_the_migrations_of_this_tally_apply_and_may_be_run_twice(client: Client) -> None:
    applied = migrate(client)
    assert applied
    client.command("TRUNCATE TABLE tally.migrations")
    assert migrate(client) == applied


def test_a_server_that_is_away_means_try_again(folder: Path, tmp_path: Path) -> None:
    with started(tmp_path) as process, connected(process) as lost:
        process.kill()
        with pytest.raises(TryAgainError, match="cannot be reached"):
            migrate(lost, folder)
