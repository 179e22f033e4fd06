"""Record batches whose header names are no text: aiokafka cannot read them, so this does.

Kafka's header names are UTF-8, but no broker looks. One record of a foreign producer would
otherwise end every worker that reads it, for as long as the log holds it. Such a name is none of
Tally's, so it is kept in a readable form and otherwise means nothing.

The parts of aiokafka used here are private to it, which is why its version is bounded.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

_BATCH_START = struct.Struct(">qi")
"""Of every batch: its first offset, and how many bytes follow these two numbers."""


class PlainRecord(NamedTuple):
    """One record, with the names that aiokafka gives its fields."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class KeptRecords:
    """aiokafka's records of one fetch, and the bytes they were made of."""

    __slots__ = ("has_next", "next_batch", "raw", "size_in_bytes")

    def __init__(self, raw: bytes) -> None:
        records = MemoryRecords(raw)
        self.raw = raw
        self.has_next = records.has_next
        self.next_batch = records.next_batch
        self.size_in_bytes = records.size_in_bytes


def keep_bytes_of_fetches() -> None:
    """From now on fetches of aiokafka's consumers in this process hold KeptRecords."""
    fetcher.MemoryRecords = KeptRecords


def records_of(batch: Any, fetched: KeptRecords) -> list[Any]:
    """The records of a batch of `fetched`. Raises CorruptRecordException when it is not whole."""
    try:
        return list(batch)
    except UnicodeDecodeError:
        pass
    except CorruptRecordException as error:
        # aiokafka without its compiled parts wraps the other one.
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise
    return list(_read(_batch_at(fetched.raw, batch.base_offset)))


def _batch_at(raw: bytes, base_offset: int) -> bytes:
    at = 0
    while True:
        found, size = _BATCH_START.unpack_from(raw, at)
        end = at + _BATCH_START.size + size
        if found == base_offset:
            return raw[at:end]
        at = end


def _read(raw: bytes) -> list[PlainRecord]:
    batch: Any = _DefaultRecordBatchPy(raw)
    iter(batch)  # decompresses it
    records = []
    cursor = _Cursor(batch._buffer, batch._pos)
    for _ in range(batch._num_records):
        cursor.number()  # how long the record is
        cursor.at += 1  # attributes, of which there are none yet
        passed_ms = cursor.number()
        is_log_time = batch.timestamp_type == batch.LOG_APPEND_TIME
        records.append(
            PlainRecord(
                offset=batch.base_offset + cursor.number(),
                timestamp=batch.max_timestamp if is_log_time else batch.first_timestamp + passed_ms,
                key=cursor.blob(),
                value=cursor.blob(),
                headers=[cursor.header() for _ in range(cursor.number())],
            )
        )
    return records


class _Cursor:
    """Reads the parts of records one after the other."""

    def __init__(self, buffer: bytes, at: int) -> None:
        self._buffer = buffer
        self.at = at

    def number(self) -> int:
        number: int
        number, self.at = decode_varint(self._buffer, self.at)
        return number

    def blob(self) -> bytes | None:
        size = self.number()
        if size < 0:
            return None
        start = self.at
        self.at += size
        return bytes(self._buffer[start : self.at])

    def header(self) -> tuple[str, bytes | None]:
        name = self.blob() or b""
        return name.decode(errors="backslashreplace"), self.blob()
