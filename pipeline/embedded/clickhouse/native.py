"""The Native format as clients with a protocol revision expect it (clickhouse-go, so Grafana).

The engine writes Native of revision 0, and takes no revision. Revisions from 54454 put a block info
before each block and one byte (0: no custom serialization) before each column's data, so the
columns' ends must be found, which their types tell. A lower revision is answered with revision 0,
as by a proxy that drops the parameter: clickhouse-connect asks for 54405, sees that it is not
heeded, and loses nothing.
"""

from collections.abc import Callable

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.lexer import tokens

REVISION_WITH_CUSTOM_SERIALIZATION = 54454
# Field 1: is it overflow rows (no); field 2: bucket (-1, none); 0 ends the fields.
BLOCK_INFO = b"\x01\x00\x02\xff\xff\xff\xff\x00"

_WIDTHS = {
    1: "UInt8 Int8 Bool Enum8 Nothing",
    2: "UInt16 Int16 Date Enum16 BFloat16",
    4: "UInt32 Int32 Float32 Date32 DateTime IPv4 Decimal32 Time",
    8: "UInt64 Int64 Float64 DateTime64 Decimal64 Time64",
    16: "UInt128 Int128 UUID IPv6 Decimal128 Point",
    32: "UInt256 Int256 Decimal256",
}
_WIDTH = {name: width for width, names in _WIDTHS.items() for name in names.split()}
_DECIMAL_WIDTHS = ((9, 4), (18, 8), (38, 16), (76, 32))
_ALIASES = {
    "Ring": "Array(Point)",
    "LineString": "Array(Point)",
    "Polygon": "Array(Array(Point))",
    "MultiLineString": "Array(Array(Point))",
    "MultiPolygon": "Array(Array(Array(Point)))",
}


class ShortError(Exception):
    """The block is not whole yet."""


class NativeEncoder:
    """An `Encoder` (compression.py) from revision 0 to a later one, block by whole block."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._try_at_bytes = 0

    def compress(self, chunk: bytes) -> bytes:
        """Whole blocks re-written; raises ClickHouseError for a type whose end cannot be found."""
        self._buffer += chunk
        if len(self._buffer) < self._try_at_bytes:
            return b""
        written, at, data = [], 0, bytes(self._buffer)
        while at < len(data):
            try:
                block, at = rewritten(data, at)
            except ShortError:
                # Doubling keeps a large block from being walked once per piece of it.
                self._try_at_bytes = 2 * (len(data) - at)
                break
            self._try_at_bytes = 0
            written.append(block)
        del self._buffer[:at]
        return b"".join(written)

    def finish(self) -> bytes:
        """What is left; raises ClickHouseError if that is no whole block."""
        self._try_at_bytes = 0
        last = self.compress(b"")
        if self._buffer:
            raise errors.refusal(
                errors.NOT_IMPLEMENTED, "the end of a column cannot be found in format Native"
            )
        return last


def rewritten(data: bytes, at: int) -> tuple[bytes, int]:
    """One block of the later revision, and where the next begins; raises ShortError."""
    columns, at = _varint(data, at)
    rows, at = _varint(data, at)
    parts = [BLOCK_INFO, _written_varint(columns), _written_varint(rows)]
    for _ in range(columns):
        name_end = _string_end(data, at)
        type_end = _string_end(data, name_end)
        _, type_start = _varint(data, name_end)
        kind = data[type_start:type_end].decode()
        # Each LowCardinality, however deep, puts a version before all of the column's data.
        versions = kind.count("LowCardinality(") if rows else 0
        end = skip(kind, rows, data, type_end + 8 * versions)
        if end > len(data):
            raise ShortError
        parts += [data[at:type_end], b"\x00", data[type_end:end]]
        at = end
    return b"".join(parts), at


def skip(kind: str, rows: int, data: bytes, at: int) -> int:
    """Where a column of `rows` values ends; raises ShortError, or ClickHouseError for its type."""
    name, _, inner = kind.partition("(")
    inner = inner[:-1]
    if name in _WIDTH:
        return at + rows * _WIDTH[name]
    if name == "String":
        for _ in range(rows):
            at = _string_end(data, at)
        return at
    if name in _ALIASES:
        return skip(_ALIASES[name], rows, data, at)
    if name in _COMPOSITES:
        return _COMPOSITES[name](inner, rows, data, at)
    if name.startswith("Interval"):
        return at + 8 * rows
    raise errors.refusal(
        errors.NOT_IMPLEMENTED,
        f"Native with client_protocol_version cannot carry the type {kind} here",
    )


def _nullable(inner: str, rows: int, data: bytes, at: int) -> int:
    return skip(inner, rows, data, at + rows)


def _array(inner: str, rows: int, data: bytes, at: int) -> int:
    if rows == 0:
        return at
    end = at + 8 * rows
    return skip(inner, _uint64(data, end - 8), data, end)


def _low_cardinality(inner: str, rows: int, data: bytes, at: int) -> int:
    """A dictionary of keys, then an index into it for each row, as wide as the flags tell."""
    if rows == 0:
        return at
    if inner.startswith("Nullable("):
        inner = inner[len("Nullable(") : -1]
    width = 1 << (_uint64(data, at) & 3)
    at = skip(inner, _uint64(data, at + 8), data, at + 16)
    return at + 8 + width * _uint64(data, at)


def _tuple(inner: str, rows: int, data: bytes, at: int) -> int:
    for part in split(inner):
        words = list(tokens(part.encode()))
        # `name Type`, where the name may be quoted and hold anything; else the type alone.
        named = len(words) > 1 and words[1].kind == "word"
        kind = part.encode()[words[1].start :].decode() if named else part
        at = skip(kind, rows, data, at)
    return at


def _map(inner: str, rows: int, data: bytes, at: int) -> int:
    return _array(f"Tuple({inner})", rows, data, at)


def _nested(inner: str, rows: int, data: bytes, at: int) -> int:
    return _array(f"Tuple({inner})", rows, data, at)


def _fixed_string(inner: str, rows: int, _data: bytes, at: int) -> int:
    return at + rows * int(inner)


def _decimal(inner: str, rows: int, _data: bytes, at: int) -> int:
    digits = int(split(inner)[0])
    return at + rows * next(width for most, width in _DECIMAL_WIDTHS if digits <= most)


def _simple_aggregate(inner: str, rows: int, data: bytes, at: int) -> int:
    return skip(split(inner)[-1], rows, data, at)


_COMPOSITES: dict[str, Callable[[str, int, bytes, int], int]] = {
    "Nullable": _nullable,
    "Array": _array,
    "Tuple": _tuple,
    "LowCardinality": _low_cardinality,
    "Map": _map,
    "Nested": _nested,
    "FixedString": _fixed_string,
    "Decimal": _decimal,
    "SimpleAggregateFunction": _simple_aggregate,
}


def split(inner: str) -> list[str]:
    """The arguments of a type, at its own level of brackets."""
    raw, parts, start = inner.encode(), [], 0
    for token in tokens(raw):
        if token.depth == 0 and token.is_sign(b","):
            parts.append(raw[start : token.start].strip().decode())
            start = token.end
    return [*parts, raw[start:].strip().decode()]


def _uint64(data: bytes, at: int) -> int:
    if at + 8 > len(data):
        raise ShortError
    return int.from_bytes(data[at : at + 8], "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if at >= len(data):
            raise ShortError
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _written_varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _string_end(data: bytes, at: int) -> int:
    size, at = _varint(data, at)
    if at + size > len(data):
        raise ShortError
    return at + size
