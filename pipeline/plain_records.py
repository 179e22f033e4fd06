"""Records of a batch as plain tuples: read here where aiokafka cannot, since a header's name is no
text. Kafka's header names are UTF-8, but no broker looks."""

from __future__ import annotations

from typing import Any, NamedTuple

from aiokafka.record.default_records import _DefaultRecordBatchPy

from pipeline.errors import BadInputError

_VARINT_BITS_MAX = 70
_INT64 = range(-(2**63), 2**63)


class PlainRecord(NamedTuple):
    """One record, with the names that aiokafka gives its fields."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_type: int | None = None
    checksum: int | None = None


def plain_records(raw: bytes) -> list[PlainRecord]:
    """The records of a batch of format 2. A name that is no text is made readable.

    Raises BadInputError, and whatever codecs raise.
    """
    batch: Any = _DefaultRecordBatchPy(raw)
    iter(batch)  # decompresses it
    is_log_time = batch.timestamp_type == batch.LOG_APPEND_TIME
    records = []
    cursor = _Cursor(bytes(batch._buffer), batch._pos)
    for _ in range(batch._num_records):
        end = cursor.number() + cursor.at
        cursor.skip(1)  # attributes, of which there are none yet
        passed_ms = cursor.number()
        record = PlainRecord(
            offset=batch.base_offset + cursor.number(),
            timestamp=batch.max_timestamp if is_log_time else batch.first_timestamp + passed_ms,
            key=cursor.blob(),
            value=cursor.blob(),
            headers=[cursor.header() for _ in range(cursor.number())],
            timestamp_type=batch.timestamp_type,
        )
        if cursor.at != end or not (record.offset in _INT64 and record.timestamp in _INT64):
            raise BadInputError("a record that is not as long as it says, or out of bounds")
        records.append(record)
    if not cursor.is_at_end:
        raise BadInputError("more bytes in a batch than its records have")
    return records


class _Cursor:
    """Reads the parts of records one after the other. Methods raise BadInputError at the end.

    aiokafka's own reader of numbers is compiled, and goes on past the end into other memory.
    """

    def __init__(self, buffer: bytes, at: int) -> None:
        self._buffer = buffer
        self.at = at

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self._buffer)

    def number(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self._buffer) or shift >= _VARINT_BITS_MAX:
                raise BadInputError("a number that does not end")
            byte = self._buffer[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def skip(self, count: int) -> bytes:
        start = self.at
        if count > len(self._buffer) - start:
            raise BadInputError("a record that ends too early")
        self.at += count
        return self._buffer[start : self.at]

    def blob(self) -> bytes | None:
        size = self.number()
        return None if size < 0 else self.skip(size)

    def header(self) -> tuple[str, bytes | None]:
        name = self.blob() or b""
        return name.decode(errors="backslashreplace"), self.blob()
