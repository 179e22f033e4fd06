"""Inserts: every format, data beside the query or within it, all or nothing."""

import io
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.clickhouse.process import ClickHouse

NEEDS_ROOM = "min_free_disk_bytes_to_perform_insert"
TABLE = pa.table({"a": pa.array([1, 2, 3], pa.uint32()), "b": ["one", "two", "it's"]})


@pytest.fixture(autouse=True)
def _table(door: ClickHouse, database: str) -> None:
    door.rows(
        "CREATE TABLE t (a UInt32, b String) ENGINE = MergeTree ORDER BY a", database=database
    )


def kept(door: ClickHouse, database: str) -> str:
    return door.rows("SELECT a, b FROM t ORDER BY a, b FORMAT CSV", database=database)


def arrow(stream: bool) -> bytes:
    sink = io.BytesIO()
    writer = (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, TABLE.schema)
    with writer:
        writer.write_table(TABLE)
    return sink.getvalue()


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink)
    return sink.getvalue()


def by_engine(door: ClickHouse, fmt: str) -> bytes:
    return door.ask(
        "SELECT toUInt32(number + 1) AS a, ['one', 'two', 'it\\'s'][number + 1] AS b "
        f"FROM numbers(3) FORMAT {fmt}"
    ).body


FORMATS = ("Native", "RowBinary", "JSONEachRow", "CSV", "TabSeparated", "Values", "Avro", "ORC")


@pytest.mark.parametrize("fmt", [*FORMATS, "ArrowStream", "Arrow", "Parquet"])
@pytest.mark.parametrize("inline", [False, True])
def test_rows_arrive_in_every_format_beside_the_query_and_within_it(
    door: ClickHouse, database: str, fmt: str, inline: bool
) -> None:
    own = {"ArrowStream": arrow(True), "Arrow": arrow(False), "Parquet": parquet()}
    data = own.get(fmt) or by_engine(door, fmt)
    head = f"INSERT INTO t (a, b) FORMAT {fmt}"
    if inline:
        reply = door.ask(head.encode() + b"\n" + data, database=database)
    else:
        reply = door.ask(data, query=head, database=database)
    assert reply.status == 200, reply.text
    assert kept(door, database) == '1,"one"\n2,"two"\n3,"it\'s"\n'


def test_values_may_be_expressions_and_hold_semicolons(door: ClickHouse, database: str) -> None:
    door.rows("INSERT INTO t VALUES (1, ';'), (1 + 1, concat('a', 'b'));", database=database)
    assert kept(door, database) == '1,";"\n2,"ab"\n'


def test_settings_after_the_format_are_settings_and_not_data(
    door: ClickHouse, database: str
) -> None:
    sql = "INSERT INTO t FORMAT CSV SETTINGS format_csv_delimiter = '|'\n1|x\n"
    door.rows(sql, database=database)
    assert kept(door, database) == '1,"x"\n'


def test_a_bound_parameter_may_name_the_table(door: ClickHouse, database: str) -> None:
    door.ask("7,x\n", query="INSERT INTO {t:Identifier} FORMAT CSV", param_t="t", database=database)
    assert kept(door, database) == '7,"x"\n'


def test_an_insert_may_select_from_its_input(door: ClickHouse, database: str) -> None:
    sql = "INSERT INTO t SELECT n * 10, 'x' FROM input('n UInt32') FORMAT CSV"
    reply = door.ask("1\n2\n", query=sql, database=database)
    assert reply.status == 200, reply.text
    assert kept(door, database) == '10,"x"\n20,"x"\n'


def test_a_bad_row_refuses_the_whole_insert(door: ClickHouse, database: str) -> None:
    reply = door.ask("1,x\nnonsense,y\n", query="INSERT INTO t FORMAT CSV", database=database)
    assert reply.status == 400
    assert kept(door, database) == ""


def test_early_acknowledgement_cannot_be_asked_for(door: ClickHouse, database: str) -> None:
    door.ask(
        "1,x\n",
        query="INSERT INTO t SETTINGS async_insert = 1, wait_for_async_insert = 0 FORMAT CSV",
        database=database,
        async_insert=1,
        wait_for_async_insert=0,
    )
    assert kept(door, database) == '1,"x"\n'


def test_an_upload_that_breaks_off_inserts_nothing(door: ClickHouse, database: str) -> None:
    url = f"/?database={database}&query=INSERT+INTO+t+FORMAT+CSV"
    with socket.create_connection((door.host, door.port), timeout=10) as wire:
        wire.sendall(
            f"POST {url} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n1,x\n".encode()
        )
    assert kept(door, database) == ""


def test_a_body_larger_than_memory_allows_goes_through_a_file(
    door: ClickHouse, database: str
) -> None:
    line = b"5," + b"z" * 1000 + b"\n"
    reply = door.ask(line * 20_000, query="INSERT INTO t FORMAT CSV", database=database)
    assert reply.status == 200, reply.text
    assert door.rows("SELECT count(), min(length(b)) FROM t", database=database) == "20000\t1000\n"
    assert list((door.data / "door").iterdir()) == []


@pytest.mark.parametrize(
    ("table", "rows", "code"),
    [
        ("(a Int64) ENGINE = MergeTree PARTITION BY a ORDER BY a", 120, 252),
        ("(a Int64, CONSTRAINT small CHECK a < 10) ENGINE = MergeTree ORDER BY a", 120, 469),
        (f"(a Int64) ENGINE = MergeTree ORDER BY a SETTINGS {NEEDS_ROOM} = {2**63 - 1}", 1, 243),
    ],
    ids=["too many partitions", "a constraint", "no room"],
)
def test_rows_that_the_engine_refuses_are_not_acknowledged(
    door: ClickHouse, database: str, table: str, rows: int, code: int
) -> None:
    door.rows(f"CREATE TABLE refusing {table}", database=database)
    data = "".join(f"{n}\n" for n in range(rows))
    reply = door.ask("INSERT INTO refusing FORMAT TSV\n" + data, database=database)
    assert reply.status >= 400
    assert reply.headers["X-ClickHouse-Exception-Code"] == str(code)
    assert door.rows("SELECT count() FROM refusing", database=database) == "0\n"
