"""Statements: how each is run, and which are refused."""

import pytest

from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.insert import with_data_in
from pipeline.embedded.clickhouse.statement import CLIENT_QUERY_ID, parse
from pipeline.embedded.clickhouse.statement_kind import Kind, Statement

SIZE_MAX = 10_000


def of(sql: str) -> Statement:
    return parse(sql.encode(), SIZE_MAX)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1", Kind.READ),
        ("with 1 as x select x", Kind.READ),
        ("(SELECT 1) UNION ALL (SELECT 2)", Kind.READ),
        ("/* c */ FROM t SELECT a", Kind.READ),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", Kind.OTHER),
        ("SHOW TABLES", Kind.OTHER),
        ("CREATE TABLE t (a UInt8) ENGINE = Memory", Kind.OTHER),
        ("SET a = 1", Kind.SET),
        ("SET ROLE x", Kind.OTHER),
        ("USE x", Kind.USE),
        ("INSERT INTO t VALUES (1)", Kind.LOAD),
        ("INSERT INTO t SELECT 1", Kind.OTHER),
        ("INSERT INTO t WITH 1 AS x SELECT x", Kind.OTHER),
        ("INSERT INTO t (SELECT 1)", Kind.OTHER),
        ("INSERT INTO t SELECT a FROM input('a UInt8') FORMAT CSV\n1", Kind.LOAD_SELECT),
    ],
)
def test_a_statement_is_run_by_its_kind(sql: str, kind: Kind) -> None:
    assert of(sql).kind is kind


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT 1", "SELECT 1\nINTO OUTFILE '/p' APPEND FORMAT TSV "),
        ("SELECT 1 FORMAT JSON;", "SELECT 1 \nINTO OUTFILE '/p' APPEND FORMAT JSON "),
        (
            "SELECT 1 FORMAT CSV SETTINGS a = 1",
            "SELECT 1 \nINTO OUTFILE '/p' APPEND FORMAT CSV  SETTINGS a = 1",
        ),
        ("SELECT format FROM t -- c", "SELECT format FROM t\nINTO OUTFILE '/p' APPEND FORMAT TSV "),
        ("SELECT 1 AS format", "SELECT 1 AS format\nINTO OUTFILE '/p' APPEND FORMAT TSV "),
        (
            "SELECT (SELECT 1 AS format), 'FORMAT CSV'",
            "SELECT (SELECT 1 AS format), 'FORMAT CSV'\nINTO OUTFILE '/p' APPEND FORMAT TSV ",
        ),
    ],
)
def test_the_place_of_the_output_goes_before_the_format(sql: str, wanted: str) -> None:
    assert of(sql).into("/p", "TSV") == wanted.encode()


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT 1", "FORMAT TSV  SETTINGS log_comment = 'it\\'s'"),
        ("SELECT 1 FORMAT CSV;", "FORMAT CSV  SETTINGS log_comment = 'it\\'s'"),
        (
            "SELECT 1 SETTINGS b = 2 FORMAT CSV SETTINGS a = 1",
            "FORMAT CSV  SETTINGS a = 1, log_comment = 'it\\'s'",
        ),
    ],
)
def test_a_setting_goes_after_the_format_and_what_is_set_there(sql: str, wanted: str) -> None:
    statement = of(sql)
    assert statement.takes_settings
    assert statement.with_setting("log_comment", "it's").into("/p", "TSV").endswith(wanted.encode())


@pytest.mark.parametrize(
    "sql", ["SET a = 1", "SELECT 1 SETTINGS Log_Comment = 'x'", "INSERT INTO t VALUES (1)"]
)
def test_only_a_read_that_does_not_name_itself_takes_a_setting(sql: str) -> None:
    assert not of(sql).takes_settings


@pytest.mark.parametrize(
    ("sql", "head", "fmt", "data"),
    [
        ("INSERT INTO t VALUES (1)", "INSERT INTO t", "Values", "(1)"),
        ("INSERT INTO values VALUES (1)", "INSERT INTO values", "Values", "(1)"),
        ("INSERT INTO d.format(format) FORMAT CSV 1", "INSERT INTO d.format(format)", "CSV", "1"),
        ("INSERT INTO t FORMAT CSV\n\n1", "INSERT INTO t", "CSV", "\n1"),
        ("INSERT INTO t FORMAT CSV \r\n;1", "INSERT INTO t", "CSV", ";1"),
        ("INSERT INTO t FORMAT JSONEachRow{}", "INSERT INTO t", "JSONEachRow", "{}"),
        ("INSERT INTO t SETTINGS a=1 FORMAT CSV 1", "INSERT INTO t SETTINGS a=1", "CSV", "1"),
        ("INSERT INTO t FORMAT A SETTINGS a=1,b=2\n1", "INSERT INTO t SETTINGS a=1,b=2", "A", "1"),
        ("INSERT INTO FUNCTION f('a, b') FORMAT A\n1", "INSERT INTO FUNCTION f('a, b')", "A", "1"),
        ("INSERT INTO t FORMAT CSV;", "INSERT INTO t", "CSV", ""),
        ("INSERT INTO t", "INSERT INTO t", "Values", ""),
    ],
)  # fmt: skip
def test_an_insert_is_cut_into_head_format_and_data(
    sql: str, head: str, fmt: str, data: str
) -> None:
    statement = of(sql)
    assert statement.kind is Kind.LOAD
    assert (statement.sql.decode(), statement.format) == (head, fmt)
    assert sql[statement.data_at :] == data


def test_input_becomes_a_file() -> None:
    sql = "INSERT INTO t SELECT a FROM input ('a UInt8') WHERE a > 1 FORMAT CSV\n1\n"
    statement = of(sql)
    assert sql[statement.data_at :] == "1\n"
    assert with_data_in(statement, "/it's") == (
        rb"INSERT INTO t SELECT a FROM file('/it\'s', 'CSV', 'a UInt8') WHERE a > 1 "
    )


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("", 62),
        (" ; ", 62),
        ("-- only a comment", 62),
        ("SELECT 1; SELECT 2", 62),
        ("DROP TABLE a; DROP TABLE b", 62),
        ("SELECT 1 INTO OUTFILE 'x'", 358),
        ("SHOW TABLES INTO OUTFILE 'x' FORMAT CSV", 358),
        ("INSERT INTO t FROM INFILE 'x' FORMAT CSV", 78),
        ("INSERT INTO t FORMAT CSV; 1", 62),
        ("SELECT 1 \x00 DROP TABLE t", 62),
        ("INSERT INTO t \x00input\x00 SELECT 1", 62),
        ("SELECT '" + "x" * SIZE_MAX + "'", 62),
    ],
)
def test_what_a_server_refuses_is_refused(sql: str, code: int) -> None:
    with pytest.raises(ClickHouseError) as caught:
        of(sql)
    assert caught.value.code == code


def test_data_does_not_count_as_the_querys_size() -> None:
    assert of("INSERT INTO t VALUES " + "(1)," * SIZE_MAX).kind is Kind.LOAD


def test_semicolons_within_literals_end_nothing() -> None:
    assert of("SELECT ';', `;`, $$;$$;").sql == b"SELECT ';', `;`, $$;$$"


def test_kill_query_goes_by_the_clients_id() -> None:
    statement = of("KILL QUERY WHERE query_id = 'query_id' SYNC")
    assert statement.sql == b"KILL QUERY WHERE " + CLIENT_QUERY_ID + b" = 'query_id' SYNC"
