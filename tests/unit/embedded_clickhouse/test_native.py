"""The Native format, from revision 0 to one with block infos."""

import struct

import pytest

from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.native import BLOCK_INFO, NativeEncoder, skip, split


def text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


LOW_CARDINALITY_LIST = numbers(1, 1, 0x601, 1) + text("x") + numbers(1) + b"\x00\x00"

# Type, rows, and the bytes of a column of that type.
COLUMNS = [
    ("UInt8", 3, b"\x01\x02\x03"),
    ("Nullable(UInt16)", 2, b"\x00\x01" + b"\x05\x00\x00\x00"),
    ("String", 2, text("one") + text("")),
    ("FixedString(3)", 2, b"abcdef"),
    ("Array(UInt8)", 2, numbers(1, 3) + b"abc"),
    ("Array(Array(String))", 1, numbers(2) + numbers(1, 2) + text("a") + text("b")),
    ("Array(String)", 2, numbers(0, 0)),
    ("Map(String, UInt8)", 1, numbers(2) + text("k") + text("l") + b"\x01\x02"),
    ("Tuple(UInt8, String)", 1, b"\x01" + text("x")),
    ("Tuple(a UInt8, `b c` String)", 1, b"\x01" + text("x")),
    ("Tuple(Decimal(9, 2), Decimal(38, 2))", 1, b"x" * 20),
    ("DateTime64(3, 'Europe/Berlin')", 1, b"x" * 8),
    ("Enum8('a' = 1, 'b' = 2)", 2, b"\x01\x02"),
    ("SimpleAggregateFunction(max, UInt64)", 1, numbers(7)),
    ("SimpleAggregateFunction(maxMap, Map(UInt16, UInt8))", 1, numbers(1) + b"\x01\x00\x02"),
    ("LowCardinality(String)", 2, numbers(1, 0x600, 1) + text("x") + numbers(2) + b"\x00\x00"),
    ("Array(LowCardinality(Nullable(String)))", 1, LOW_CARDINALITY_LIST),
    ("Tuple(Enum8('a)' = 1), String)", 1, b"\x01" + text("x")),
    ("UUID", 1, b"x" * 16),
    ("IntervalDay", 1, numbers(1)),
    ("Ring", 1, numbers(2) + b"x" * 32),
]  # fmt: skip


def plain(kind: str, rows: int, column: bytes) -> bytes:
    return bytes([1, rows]) + text("c") + text(kind) + column


def revised(kind: str, rows: int, column: bytes) -> bytes:
    return BLOCK_INFO + bytes([1, rows]) + text("c") + text(kind) + b"\x00" + column


@pytest.mark.parametrize(("kind", "rows", "column"), COLUMNS)
def test_a_column_of_every_type_is_found_to_its_end(kind: str, rows: int, column: bytes) -> None:
    encoder = NativeEncoder()
    block = plain(kind, rows, column)
    assert encoder.compress(block * 2) + encoder.finish() == revised(kind, rows, column) * 2


@pytest.mark.parametrize(("kind", "rows", "column"), COLUMNS)
def test_blocks_may_arrive_byte_by_byte(kind: str, rows: int, column: bytes) -> None:
    encoder = NativeEncoder()
    block = plain(kind, rows, column) * 2
    written = b"".join(encoder.compress(block[at : at + 1]) for at in range(len(block)))
    assert written + encoder.finish() == revised(kind, rows, column) * 2


def test_a_block_without_rows_has_no_data() -> None:
    kind = "LowCardinality(String)"
    assert NativeEncoder().compress(plain(kind, 0, b"")) == revised(kind, 0, b"")


@pytest.mark.parametrize("kind", ["AggregateFunction(sum, UInt8)", "Dynamic", "Array(JSON)"])
def test_a_type_that_cannot_be_measured_is_refused(kind: str) -> None:
    with pytest.raises(ClickHouseError) as caught:
        skip(kind, 1, numbers(1, 1, 1), 0)
    assert caught.value.code == 48


def test_arguments_are_split_at_their_own_level() -> None:
    assert split("a Tuple(b, c), Map(d, e)") == ["a Tuple(b, c)", "Map(d, e)"]
