"""Compression: HTTP's both ways, and ClickHouse's own blocks."""

import gzip
import zlib
from collections.abc import Callable

import cramjam
import pytest

from pipeline.embedded.clickhouse.blocks import BlockEncoder, unblocked
from tests.integration.clickhouse.process import ClickHouse

ROWS = "SELECT number FROM numbers(1000)"
WANTED = "".join(f"{n}\n" for n in range(1000)).encode()
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "br": lambda data: bytes(cramjam.brotli.compress(data)),
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "zstd": lambda data: bytes(cramjam.zstd.decompress(data)),
    "lz4": lambda data: bytes(cramjam.lz4.decompress(data)),
    "br": lambda data: bytes(cramjam.brotli.decompress(data)),
}


@pytest.mark.parametrize("encoding", UNPACK)
def test_an_answer_is_compressed_as_the_client_accepts(door: ClickHouse, encoding: str) -> None:
    headers = {"Accept-Encoding": f"nonsense, {encoding};q=0.9"}
    reply = door.ask(ROWS, headers=headers, enable_http_compression=1)
    assert reply.headers["Content-Encoding"] == encoding
    assert UNPACK[encoding](reply.body) == WANTED


@pytest.mark.parametrize("encoding", UNPACK)
def test_a_streamed_answer_is_compressed_too(door: ClickHouse, encoding: str) -> None:
    sql = "SELECT number FROM numbers(500000)"
    reply = door.ask(sql, headers={"Accept-Encoding": encoding})
    lines = UNPACK[encoding](reply.body).splitlines()
    assert (len(lines), lines[-1]) == (500_000, b"499999")


def test_compression_can_be_turned_off(door: ClickHouse) -> None:
    reply = door.ask(ROWS, headers={"Accept-Encoding": "gzip"}, enable_http_compression=0)
    assert "Content-Encoding" not in reply.headers
    assert reply.body == WANTED


@pytest.mark.parametrize("encoding", PACK)
def test_a_compressed_body_is_understood(door: ClickHouse, database: str, encoding: str) -> None:
    door.rows("CREATE TABLE t (a UInt64) ENGINE = Memory", database=database)
    reply = door.ask(
        PACK[encoding](WANTED),
        headers={"Content-Encoding": encoding},
        query="INSERT INTO t FORMAT CSV",
        database=database,
    )
    assert reply.status == 200, reply.text
    assert door.rows("SELECT count(), sum(a) FROM t", database=database) == "1000\t499500\n"


@pytest.mark.parametrize("encoding", PACK)
def test_a_body_cut_short_is_refused(door: ClickHouse, database: str, encoding: str) -> None:
    door.rows("CREATE TABLE t (a UInt64) ENGINE = Memory", database=database)
    reply = door.ask(
        PACK[encoding](WANTED)[:-6],
        headers={"Content-Encoding": encoding},
        query="INSERT INTO t FORMAT CSV",
        database=database,
    )
    assert reply.headers["X-ClickHouse-Exception-Code"] == "271"
    assert door.rows("SELECT count() FROM t", database=database) == "0\n"


def test_an_unknown_encoding_is_refused(door: ClickHouse) -> None:
    reply = door.ask("SELECT 1", headers={"Content-Encoding": "nonsense"})
    assert (reply.status, reply.headers["X-ClickHouse-Exception-Code"]) == (501, "48")


def test_blocks_of_clickhouses_own_go_out_and_come_in(door: ClickHouse, database: str) -> None:
    reply = door.ask(ROWS, compress=1)
    assert b"".join(unblocked([reply.body])) == WANTED
    door.rows("CREATE TABLE t (a UInt64) ENGINE = Memory", database=database)
    packed = BlockEncoder().compress(WANTED)
    sql = "INSERT INTO t FORMAT CSV"
    assert door.ask(packed, query=sql, decompress=1, database=database).status == 200
    assert door.rows("SELECT sum(a) FROM t", database=database) == "499500\n"
    damaged = packed[:40] + bytes([packed[40] ^ 1]) + packed[41:]
    reply = door.ask(damaged, query=sql, decompress=1, database=database)
    assert reply.headers["X-ClickHouse-Exception-Code"] == "40"
