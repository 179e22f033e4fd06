"""Requests as Grafana's ClickHouse plugin sends them over HTTP (clickhouse-go)."""

import gzip
import json
import struct

from pipeline.embedded.clickhouse.native import BLOCK_INFO
from tests.integration.clickhouse.process import ClickHouse

REVISION = 54460


def ask_native(door: ClickHouse, sql: str) -> bytes:
    reply = door.ask(
        sql,
        headers={"Accept-Encoding": "gzip", "Authorization": "Basic ZGVmYXVsdDo="},
        client_protocol_version=REVISION,
        default_format="Native",
        database="default",
        max_execution_time=60,
        enable_http_compression=1,
    )
    assert reply.status == 200, reply.text
    return gzip.decompress(reply.body)


def text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def test_the_handshake_is_answered_in_its_revision(door: ClickHouse) -> None:
    block = ask_native(door, "SELECT timezone() AS zone, toUInt32(7) AS n")
    zone = door.rows("SELECT timezone()").strip()
    assert block == (
        BLOCK_INFO
        + b"\x02\x01"
        + text("zone") + text("String") + b"\x00" + text(zone)
        + text("n") + text("UInt32") + b"\x00" + struct.pack("<I", 7)
    )  # fmt: skip


def test_a_time_series_of_many_types_is_whole(door: ClickHouse) -> None:
    sql = (
        "SELECT toDateTime(number) AS time, toNullable(number) AS value, "
        "map('k', number) AS labels, [1, number] AS list, tuple(number, 'x') AS pair, "
        "toLowCardinality('lc') AS lc, toDecimal64(1.5, 2) AS d, toFixedString('ab', 3) AS f "
        "FROM numbers(200000)"
    )
    plain = door.ask(sql, default_format="Native").body
    block_count = 0
    position, body = 0, ask_native(door, sql)
    while (position := body.find(BLOCK_INFO, position)) >= 0:
        block_count += 1
        position += len(BLOCK_INFO)
    # Each block gains its info and one byte for each of its eight columns, and nothing else.
    assert block_count > 1
    assert len(body) == len(plain) + block_count * (len(BLOCK_INFO) + 8)


def test_a_json_answer_has_meta_data_and_statistics(door: ClickHouse) -> None:
    sql = "SELECT toStartOfMinute(toDateTime(0)) AS time, count() AS n FROM numbers(3)"
    reply = door.ask(sql, default_format="JSONCompact", session_timezone="UTC")
    answer = json.loads(reply.body)
    assert [column["name"] for column in answer["meta"]] == ["time", "n"]
    assert answer["data"] == [["1970-01-01 00:00:00", 3]]
    assert answer["rows"] == 1


def test_a_type_that_cannot_be_carried_is_refused_clearly(door: ClickHouse) -> None:
    reply = door.ask(
        "SELECT sumState(1)", client_protocol_version=REVISION, default_format="Native"
    )
    assert (reply.status, reply.headers["X-ClickHouse-Exception-Code"]) == (501, "48")
