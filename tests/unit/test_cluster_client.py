"""What goes out to a cluster: statements said anew, and settings that make an insert last."""

import json
from typing import Any, cast

import pytest
import typer
from clickhouse_connect.driver import Client

from pipeline.cli import run
from pipeline.cli.exchange import exchange
from pipeline.clickhouse import arguments
from pipeline.cluster_client import for_cluster
from schemas.settings import load_settings


class Wire:
    """What a client would send, in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def command(self, cmd: str, parameters: Any = None) -> int:
        self.sent.append((cmd, parameters))
        return len(self.sent)

    def query(self, query: str, parameters: Any = None) -> int:
        return self.command(query, parameters)

    query_arrow = query


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLY_CLICKHOUSE_CLUSTER", "prod")
    monkeypatch.setenv("TALLY_CLICKHOUSE_QUORUM", "3")


def test_a_command_becomes_all_of_its_statements_and_a_question_one() -> None:
    wire = Wire()
    client = for_cluster(cast("Client", wire), "prod")
    assert client.command("CREATE TABLE IF NOT EXISTS tally.cells_1m (a Int8) ENGINE = MergeTree")
    assert [text.split(" (")[0].split(" AS")[0] for text, _ in wire.sent] == [
        "CREATE TABLE IF NOT EXISTS tally_local.cells_1m ON CLUSTER 'prod'",
        "CREATE TABLE IF NOT EXISTS tally.cells_1m ON CLUSTER 'prod'",
    ]
    client.query("SELECT 1 FROM system.parts WHERE a = {a:Int8}", {"a": 1})
    assert wire.sent[-1] == ("SELECT 1 FROM tally_local.parts WHERE a = {a:Int8}", {"a": 1})


@pytest.mark.usefixtures("cluster")
def test_an_insert_is_confirmed_by_the_quorum_and_written_through() -> None:
    settings = arguments(load_settings().clickhouse)["settings"]
    assert settings["insert_quorum"] == 3
    assert settings["distributed_foreground_insert"] == 1


def test_a_single_server_is_told_nothing_of_it() -> None:
    assert "settings" not in arguments(load_settings().clickhouse)


@pytest.mark.usefixtures("cluster")
def test_migrate_shows_the_statements_of_the_cluster_without_a_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["migrate", "--show", "--json"]) == 0
    statements = json.loads(capsys.readouterr().out)["statements"]
    assert statements[0] == "CREATE DATABASE IF NOT EXISTS tally ON CLUSTER 'prod'"
    assert any("ENGINE = Distributed('prod'" in statement for statement in statements)


def test_migrate_shows_the_statements_of_one_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", "--show"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("CREATE DATABASE IF NOT EXISTS tally;\n")
    assert "ON CLUSTER" not in shown


@pytest.mark.usefixtures("cluster")
def test_cells_of_a_cluster_are_not_sent_to_another() -> None:
    with pytest.raises(typer.BadParameter, match="TALLY_CLICKHOUSE_CLUSTER"):
        exchange(to="http://127.0.0.1:1", interval="10s")


@pytest.mark.parametrize("name", ["a'b", "", "two words", "x" * 65])
def test_a_cluster_has_a_name_that_needs_no_quotes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_CLICKHOUSE_CLUSTER", name)
    if not name:
        assert load_settings().clickhouse.cluster is None
        return
    with pytest.raises(Exception, match="TALLY_CLICKHOUSE_CLUSTER"):
        load_settings()
