"""Queries over plain HTTP, as curl sends them."""

import json

import pytest

from tests.integration.clickhouse.process import ClickHouse


def test_a_query_in_the_url_and_one_in_the_body_answer_alike(door: ClickHouse) -> None:
    assert door.ask(method="GET", query="SELECT 1").text == "1\n"
    assert door.rows("SELECT 1") == "1\n"


def test_the_url_and_the_body_make_one_query(door: ClickHouse) -> None:
    assert door.ask("numbers(3)", query="SELECT sum(number) FROM").text == "3\n"


def test_ping_and_the_root_say_ok(door: ClickHouse) -> None:
    for path in ("/ping", "/replicas_status", "/"):
        reply = door.ask(method="GET", path=path)
        assert (reply.status, reply.text) == (200, "Ok.\n")


def test_head_answers_without_a_body(door: ClickHouse) -> None:
    reply = door.ask(method="HEAD", query="SELECT 1")
    assert (reply.status, reply.body) == (200, b"")


def test_an_unknown_path_is_not_found(door: ClickHouse) -> None:
    reply = door.ask(method="GET", path="/nope")
    assert reply.status == 404
    assert reply.text.startswith("There is no handle /nope")


@pytest.mark.parametrize(
    ("params", "headers"),
    [({"default_format": "JSON"}, {}), ({}, {"X-ClickHouse-Format": "JSON"})],
)
def test_the_default_format_is_taken_from_url_or_header(
    door: ClickHouse, params: dict[str, str], headers: dict[str, str]
) -> None:
    reply = door.ask("SELECT 1 AS x", headers=headers, **params)
    assert json.loads(reply.body)["data"] == [{"x": 1}]
    assert reply.headers["X-ClickHouse-Format"] == "JSON"
    assert reply.headers["Content-Type"].startswith("application/json")


def test_a_format_in_the_query_wins_over_the_default(door: ClickHouse) -> None:
    assert door.rows("SELECT 1 AS x FORMAT JSONEachRow", default_format="CSV") == '{"x":1}\n'


def test_the_database_is_taken_from_url_or_header(door: ClickHouse, database: str) -> None:
    sql = "SELECT currentDatabase()"
    assert door.rows(sql, database=database) == f"{database}\n"
    assert door.ask(sql, headers={"X-ClickHouse-Database": database}).text == f"{database}\n"
    assert door.rows(sql) == "default\n"


def test_bound_parameters_are_values_and_never_sql(door: ClickHouse) -> None:
    reply = door.rows(
        "SELECT {text:String}, {list:Array(UInt8)}, {none:Nullable(String)} "
        "FORMAT JSONCompactEachRow",
        param_text="it's \\\\ ; DROP",
        param_list="[1,2]",
        param_none="\\N",
    )
    assert json.loads(reply) == ["it's \\ ; DROP", [1, 2], None]


def test_a_setting_in_the_url_holds_for_one_query(door: ClickHouse) -> None:
    sql = "SELECT getSetting('max_block_size')"
    before = door.rows(sql)
    assert door.rows(sql, max_block_size=77) == "77\n"
    assert door.rows(sql) == before


def test_credentials_are_accepted_and_ignored(door: ClickHouse) -> None:
    headers = {"X-ClickHouse-User": "someone", "X-ClickHouse-Key": "secret"}
    assert door.ask("SELECT 1", headers=headers).text == "1\n"
    assert door.rows("SELECT 1", user="someone", password="secret") == "1\n"


def test_the_query_id_of_the_client_comes_back_and_one_is_made_up_without(door: ClickHouse) -> None:
    assert door.ask("SELECT 1", query_id="mine").headers["X-ClickHouse-Query-Id"] == "mine"
    made_up = {door.ask("SELECT 1").headers["X-ClickHouse-Query-Id"] for _ in range(3)}
    assert len(made_up) == 3


def test_the_summary_counts_what_was_read_and_written(door: ClickHouse, database: str) -> None:
    door.rows("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a", database=database)
    wrote = door.ask("1\n2\n3\n", query="INSERT INTO t FORMAT CSV", database=database)
    assert json.loads(wrote.headers["X-ClickHouse-Summary"])["written_rows"] == "3"
    copied = door.ask("INSERT INTO t SELECT * FROM t", database=database)
    assert json.loads(copied.headers["X-ClickHouse-Summary"])["written_rows"] == "3"
    read = json.loads(
        door.ask("SELECT sum(a) FROM t", database=database).headers["X-ClickHouse-Summary"]
    )
    assert (read["read_rows"], read["read_bytes"], read["result_rows"]) == ("6", "48", "1")


def test_get_may_only_read(door: ClickHouse, database: str) -> None:
    refused = door.ask(method="GET", query=f"CREATE TABLE {database}.t (a UInt8) ENGINE = Memory")
    assert refused.headers["X-ClickHouse-Exception-Code"] == "164"
    assert door.ask(method="GET", query="SELECT 1", max_block_size=9).text == "1\n"
    loosened = door.ask(method="GET", query="SELECT 1", readonly=0)
    assert loosened.headers["X-ClickHouse-Exception-Code"] == "164"


@pytest.mark.parametrize("level", [1, 2])
def test_readonly_in_the_url_forbids_writing(door: ClickHouse, database: str, level: int) -> None:
    refused = door.ask(f"DROP DATABASE {database}", readonly=level)
    assert refused.headers["X-ClickHouse-Exception-Code"] == "164"
    assert door.rows("SELECT 1", readonly=level) == "1\n"


def test_a_page_of_another_site_may_not_ask(door: ClickHouse) -> None:
    reply = door.ask("SELECT 1", headers={"Sec-Fetch-Site": "cross-site"})
    assert reply.status == 403


def test_a_page_whose_name_was_turned_to_this_address_may_not_ask(door: ClickHouse) -> None:
    for path, sql in (("/", "SELECT 1"), ("/metrics", "")):
        method = "POST" if sql else "GET"
        headers = {"Sec-Fetch-Site": "same-origin", "Host": f"evil.example:{door.port}"}
        reply = door.ask(sql, method, path, headers)
        assert reply.status == 403
        assert "localhost or 127.0.0.1" in reply.text
        assert door.ask(sql, method, path, {"Host": f"localhost:{door.port}"}).status == 200
