"""Failures: ClickHouse's codes, statuses and texts, and never a torn answer that looks whole."""

import http.client
import zlib
from urllib.parse import urlencode

import pytest

from pipeline.embedded.clickhouse.native import REVISION_WITH_CUSTOM_SERIALIZATION
from tests.integration.clickhouse.process import ClickHouse


@pytest.mark.parametrize(
    ("sql", "status", "code", "name"),
    [
        ("SELECT * FROM nope", 404, 60, "UNKNOWN_TABLE"),
        ("SELECT nope", 404, 47, "UNKNOWN_IDENTIFIER"),
        ("SELECT nope()", 404, 46, "UNKNOWN_FUNCTION"),
        ("SELEC 1", 400, 62, "SYNTAX_ERROR"),
        ("1 + 1", 400, 62, "SYNTAX_ERROR"),
        ("SELECT 1; SELECT 2", 400, 62, "SYNTAX_ERROR"),
        ("-- nothing", 400, 62, "SYNTAX_ERROR"),
        ("SELECT 1 INTO OUTFILE '/tmp/no'", 500, 358, "INTO_OUTFILE_NOT_ALLOWED"),
        ("INSERT INTO t FROM INFILE 'x' FORMAT CSV", 404, 78, "UNKNOWN_TYPE_OF_QUERY"),
        ("SELECT toUInt8('x')", 400, 6, "CANNOT_PARSE_TEXT"),
        ("SELECT throwIf(1)", 500, 395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"),
        ("SELECT {x:String}", 500, 456, "UNKNOWN_QUERY_PARAMETER"),
        ("SELECT 1 FORMAT Nope", 404, 73, "UNKNOWN_FORMAT"),
    ],
)
def test_a_failing_query_gets_clickhouses_code_and_status(
    door: ClickHouse, sql: str, status: int, code: int, name: str
) -> None:
    reply = door.ask(sql)
    assert reply.headers["X-ClickHouse-Exception-Code"] == str(code), reply.text
    assert reply.status == status
    assert reply.text.startswith(f"Code: {code}. DB::Exception: ")
    assert f"({name})" in reply.text
    assert "(version " in reply.text


def test_unknown_databases_and_settings_are_not_found(door: ClickHouse) -> None:
    assert door.ask("SELECT 1", database="nope").headers["X-ClickHouse-Exception-Code"] == "81"
    reply = door.ask("SELECT 1", nonsense=1)
    assert (reply.status, reply.headers["X-ClickHouse-Exception-Code"]) == (404, "115")


def test_a_closing_semicolon_is_no_second_statement(door: ClickHouse) -> None:
    assert door.rows("SELECT 1; -- that is all\n;") == "1\n"


def test_the_size_of_a_query_is_limited_but_not_of_its_data(
    door: ClickHouse, database: str
) -> None:
    long = "SELECT '" + "x" * 300_000 + "'"
    assert door.ask(long).headers["X-ClickHouse-Exception-Code"] == "62"
    assert door.ask(long, max_query_size=400_000).status == 200
    door.rows("CREATE TABLE t (a String) ENGINE = Memory", database=database)
    values = ", ".join(f"('{'y' * 100}')" for _ in range(5000))
    door.rows(f"INSERT INTO t VALUES {values}", database=database)
    assert door.rows("SELECT count() FROM t", database=database) == "5000\n"


LATE_FAILURE = "SELECT throwIf(number = 3000000), number FROM numbers(5000000)"


def torn(
    door: ClickHouse, query: str, body: str | None = None, encoding: str = "identity"
) -> tuple[bytes, bytes]:
    """What came of an answer that was cut, and the tag in its head."""
    connection = http.client.HTTPConnection(door.host, door.port, timeout=30)
    try:
        connection.request("POST", f"/{query}", body, {"Accept-Encoding": encoding})
        answer = connection.getresponse()
        assert answer.status == 200
        with pytest.raises(http.client.IncompleteRead) as cut:
            answer.read()
    finally:
        connection.close()
    return cut.value.partial, answer.headers["X-ClickHouse-Exception-Tag"].encode()


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_failure_in_the_middle_is_told_and_the_connection_cut(
    door: ClickHouse, encoding: str
) -> None:
    body, tag = torn(door, "", LATE_FAILURE, encoding)
    if encoding == "gzip":
        body = zlib.decompressobj(31).decompress(body)
    end = body[-2000:]
    assert b"\r\n__exception__\r\n" + tag + b"\r\nCode: 395. DB::Exception" in end
    assert end.endswith(b" " + tag + b"\r\n__exception__\r\n")


@pytest.mark.parametrize("wait_end_of_query", [0, 1])
def test_an_answer_that_cannot_be_encoded_to_its_end_is_cut_as_well(
    door: ClickHouse, wait_end_of_query: int
) -> None:
    """With wait_end_of_query, a second answer was written into the midst of the first."""
    query = urlencode(
        {
            "query": "SELECT repeat(repeat('x', 1000), 5000), sumState(1)",
            "default_format": "Native",
            "client_protocol_version": REVISION_WITH_CUSTOM_SERIALIZATION,
            "wait_end_of_query": wait_end_of_query,
        }
    )
    body, tag = torn(door, f"?{query}")
    assert b"\r\n__exception__\r\n" + tag + b"\r\nCode: 48. DB::Exception" in body
    assert body.endswith(b" " + tag + b"\r\n__exception__\r\n")
    assert b"HTTP/1.1" not in body


def test_waiting_for_the_end_turns_a_late_failure_into_an_honest_status(door: ClickHouse) -> None:
    reply = door.ask(LATE_FAILURE, wait_end_of_query=1)
    assert (reply.status, reply.headers["X-ClickHouse-Exception-Code"]) == (500, "395")


def test_the_door_answers_on_after_failures(door: ClickHouse) -> None:
    for _ in range(20):
        assert door.ask("SELECT * FROM nope").status == 404
    assert door.rows("SELECT 1") == "1\n"
