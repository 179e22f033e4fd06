"""clickhouse-connect, unchanged: its client, its async client, DB-API and SQLAlchemy."""

from datetime import UTC, datetime

import clickhouse_connect
import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
import pyarrow as pa
import pytest
import sqlalchemy as sa
from clickhouse_connect import dbapi
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError
from clickhouse_connect.driver.external import ExternalData

from tests.integration.clickhouse.process import ClickHouse

DDL = "CREATE TABLE t (a Int64, b String, at DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY a"
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _table(client: Client) -> None:
    client.command(DDL)


def test_rows_go_in_and_come_out(client: Client) -> None:
    summary = client.insert("t", [[1, "x", AT], [2, "y", AT]], column_names=["a", "b", "at"])
    assert summary.written_rows == 2
    rows = client.query("SELECT a, b, at FROM t ORDER BY a", query_tz="UTC").result_rows
    assert [(a, b, at.replace(tzinfo=UTC)) for a, b, at in rows] == [(1, "x", AT), (2, "y", AT)]


def test_arrow_goes_in_and_comes_out(client: Client) -> None:
    table = pa.table({"a": range(50_000), "b": [f"b{n}" for n in range(50_000)]})
    assert client.insert_arrow("t", table).written_rows == 50_000
    back = client.query_arrow("SELECT a, b FROM t ORDER BY a", use_strings=True)
    assert back.column("a").to_pylist() == table.column("a").to_pylist()
    assert back.column("b").to_pylist() == table.column("b").to_pylist()


def test_data_frames_go_in_and_come_out(client: Client) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    client.insert_df("t", frame)
    back = client.query_df("SELECT a, b FROM t ORDER BY a")
    assert back["a"].tolist() == [1, 2]
    assert back["b"].tolist() == ["x", "y"]


def test_parameters_are_bound(client: Client) -> None:
    client.insert("t", [[1, "it's", AT]], column_names=["a", "b", "at"])
    sql = (
        "SELECT a FROM t WHERE b = {b:String} AND a IN {many:Array(Int64)} "
        "AND at = {at:DateTime64(3)}"
    )
    parameters = {"b": "it's", "many": [1, 2], "at": AT}
    assert client.query(sql, parameters=parameters).result_rows == [(1,)]


def test_parameters_may_travel_in_a_form(door: ClickHouse) -> None:
    client = clickhouse_connect.get_client(
        host=door.host, port=door.port, form_encode_query_params=True, dedicated_pool=True
    )
    try:
        text = "é" * 50_000
        result = client.query("SELECT length({x:String})", parameters={"x": text})
        assert result.result_rows == [(100_000,)]
    finally:
        client.close()


def test_row_blocks_stream(client: Client) -> None:
    with client.query_row_block_stream("SELECT number FROM numbers(300000)") as stream:
        assert sum(len(block) for block in stream) == 300_000


def test_a_failure_in_the_middle_of_a_stream_is_raised(client: Client) -> None:
    sql = "SELECT throwIf(number = 3000000), number FROM numbers(5000000)"
    with (
        client.query_row_block_stream(sql) as stream,
        pytest.raises(StreamFailureError, match="395"),
    ):
        for _ in stream:
            pass


def test_raw_queries_and_raw_inserts_pass_any_format(client: Client) -> None:
    client.raw_insert("t", ["a", "b"], b'{"a": 4, "b": "four"}', fmt="JSONEachRow")
    assert client.raw_query("SELECT a, b FROM t", fmt="CSV") == b'4,"four"\n'
    with client.raw_stream("SELECT a FROM t", fmt="TabSeparated") as stream:
        assert stream.read() == b"4\n"


def test_commands_answer_values(client: Client, database: str) -> None:
    assert client.command("SELECT count() FROM t") == 0
    assert client.command("SELECT currentDatabase()") == database
    assert client.command("EXISTS TABLE t") == 1


def test_an_empty_result_has_its_columns(client: Client) -> None:
    assert client.query("SELECT a, b FROM t LIMIT 0").column_names == ("a", "b")


def test_errors_carry_their_code(client: Client) -> None:
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE") as caught:
        client.query("SELECT * FROM nope")
    assert caught.value.code == 60


def test_settings_hold_for_one_query(client: Client) -> None:
    sql = "SELECT getSetting('max_block_size')"
    before = client.query(sql).result_rows
    assert client.query(sql, settings={"max_block_size": 5}).result_rows == [(5,)]
    assert client.query(sql).result_rows == before


def test_external_data_is_a_table_for_one_query(client: Client) -> None:
    data = ExternalData(
        file_name="e", data=b"1,x\n2,y\n", fmt="CSV", structure=["n UInt8", "s String"]
    )
    sql = "SELECT sum(n), max(s) FROM e"
    assert client.query(sql, external_data=data).result_rows == [(3, "y")]
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        client.query(sql)


@pytest.mark.parametrize("compress", [False, "gzip", "zstd", "lz4"])
def test_every_compression_of_the_client_works_both_ways(
    door: ClickHouse, database: str, compress: bool | str
) -> None:
    client = clickhouse_connect.get_client(
        host=door.host, port=door.port, database=database, compress=compress, dedicated_pool=True
    )
    try:
        rows = [[n, f"row {n}", AT] for n in range(1000)]
        client.insert("t", rows, column_names=["a", "b", "at"])
        assert len(client.query("SELECT * FROM t").result_rows) == 1000
    finally:
        client.close()


async def test_the_async_client_works(door: ClickHouse, database: str) -> None:
    client = await clickhouse_connect.get_async_client(
        host=door.host, port=door.port, database=database
    )
    try:
        await client.insert("t", [[1, "x", AT]], column_names=["a", "b", "at"])
        result = await client.query("SELECT a, b FROM t")
        assert result.result_rows == [(1, "x")]
    finally:
        await client.close()


def test_the_db_api_works(door: ClickHouse, database: str) -> None:
    connection = dbapi.connect(host=door.host, port=door.port, database=database)
    try:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO t (a, b) VALUES (1, 'x')")
        cursor.execute("SELECT a, b FROM t WHERE a = %(a)s", {"a": 1})
        assert cursor.fetchall() == [(1, "x")]
    finally:
        connection.close()


def test_sqlalchemy_works(door: ClickHouse, database: str) -> None:
    engine = sa.create_engine(f"clickhousedb://{door.host}:{door.port}/{database}")
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("INSERT INTO t (a, b) VALUES (1, 'x')"))
            rows = connection.execute(sa.text("SELECT a, b FROM t WHERE a = :a"), {"a": 1})
            assert [tuple(row) for row in rows] == [(1, "x")]
        assert sa.inspect(engine).get_table_names(schema=database) == ["t"]
    finally:
        engine.dispose()
