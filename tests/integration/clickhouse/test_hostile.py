"""Requests that try to be more than they are, or are nonsense."""

import time

import pytest

from tests.integration.clickhouse.process import ClickHouse

ESCAPES = [
    "a = 1; DROP DATABASE {}; SET a",
    "`; DROP DATABASE {}; --",
    "'; DROP DATABASE {}; --",
    "\\'; DROP DATABASE {}; --",
]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("session", [{}, {"session_id": "hostile"}])
def test_nothing_in_a_url_is_run_as_sql(
    door: ClickHouse, database: str, escape: str, session: dict[str, str]
) -> None:
    text = escape.format(database)
    tries: list[dict[str, str]] = [
        {text: "1"},
        {"database": text},
        {"log_comment": text},
        {"query_id": text},
        {"param_x": text},
    ]
    for values in tries:
        door.ask("SELECT 1", "POST", "/", None, **values, **session)
        door.ask("", "GET", "/", None, query="SELECT 1", **values, **session)
        door.ask("1", "POST", "/", None, query="INSERT INTO nope FORMAT CSV", **values, **session)
        assert (
            door.rows(
                "SELECT count() FROM system.databases WHERE name = {d:String}", param_d=database
            )
            == "1\n"
        )


def test_bytes_that_are_no_text_are_answered_with_an_error(door: ClickHouse) -> None:
    reply = door.ask(b"SELECT * FROM `\xff\xfe nope`")
    assert reply.headers["X-ClickHouse-Exception-Code"] == "60"
    assert door.ask(b"SELECT '\xff\xfe' FORMAT RowBinary").body == b"\x02\xff\xfe"
    assert door.ask(b"\x00\x01\x02").headers["X-ClickHouse-Exception-Code"] == "62"


def test_a_session_lives_on_after_its_client_left_in_the_middle(door: ClickHouse) -> None:
    door.rows("SET max_block_size = 444", session_id="left")
    endless = "SELECT number FROM numbers(100000000000)"
    # HEAD takes no rows, so the query is given up once its answer has begun.
    reply = door.ask("", "HEAD", "/", None, session_id="left", query=endless, max_block_size=5)
    assert reply.status == 200
    until = time.monotonic() + 10
    while door.ask("SELECT 1", session_id="left").status != 200:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert door.rows("SELECT getSetting('max_block_size')", session_id="left") == "444\n"
