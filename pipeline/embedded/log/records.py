"""Inside a batch: finding records, their keys and times, and leaving some of them out.

Records are read by aiokafka's compiled parser. Those that stay in a compacted batch keep their very
bytes; only the header is written anew.
"""

import struct
from collections.abc import Callable, Iterator, Mapping

from aiokafka import codec
from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch
from crc32c import crc32c

from pipeline.bounded_codecs import DECODERS, bound_decompression
from pipeline.bounded_headers import has_too_many_headers
from pipeline.embedded.log.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP_AT,
    BatchHeader,
)
from pipeline.errors import BadInputError

_DECODE: dict[int, Callable[[bytes], bytes]] = {0: bytes, **DECODERS}
_ENCODE: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: codec.gzip_encode,
    2: codec.snappy_encode,
    3: codec.lz4_encode,
    4: codec.zstd_encode,
}


def records_of(batch: memoryview) -> Iterator[DefaultRecord]:
    """The records, decompressed, made one by one: all of them may be a thousand times the batch.

    Raises BadInputError where the bytes are no such thing, be it after many records, and where
    these have too many headers.
    """
    if has_too_many_headers(batch):
        raise BadInputError("records with more headers than anybody means to send")
    try:
        yield from DefaultRecordBatch(bytes(batch))
    except Exception as error:
        # Codecs and parser raise errors of many kinds; all of them mean that it is unreadable.
        raise BadInputError(f"records that cannot be read: {error}") from error


def has_null_key(batch: memoryview) -> bool:
    """True when a record lacks a key, or when the records cannot be read at all."""
    try:
        return any(record.key is None for record in records_of(batch))
    except BadInputError:
        return True


def first_record_since(
    batch: memoryview, header: BatchHeader, timestamp_ms: int, min_offset: int
) -> tuple[int, int] | None:
    """Offset and time of the first record at or after a time and an offset.

    A batch that cannot be read is answered with its own bounds.
    """
    bounds = max(header.base_offset, min_offset), header.max_timestamp_ms
    if header.is_log_append_time:
        return bounds
    try:
        for record in records_of(batch):
            if record.timestamp >= timestamp_ms and record.offset >= min_offset:
                return record.offset, record.timestamp
    except BadInputError:
        return bounds
    return None


def newest_time_since(batch: memoryview, header: BatchHeader, min_offset: int) -> int:
    """The greatest time of the records at or after an offset; -1 when there is none.

    A batch that cannot be read is answered with its own bound.
    """
    if header.is_log_append_time:
        return header.max_timestamp_ms
    try:
        times_ms = (r.timestamp for r in records_of(batch) if r.offset >= min_offset)
        return max(times_ms, default=-1)
    except BadInputError:
        return header.max_timestamp_ms


def with_records(batch: memoryview, header: BatchHeader, times_ms: Mapping[int, int]) -> bytes:
    """The batch with only those records whose numbers are in `times_ms`, with their times: at least
    one. Offsets, times and codec stay; the header's newest time is that of one that is there.

    The batch was read before, so its records are well formed.
    """
    payload = _DECODE[header.codec](bytes(batch[HEADER_SIZE:]))
    bounds = _bounds_of(payload, header.record_count)
    stays = [payload[start:end] for number, (start, end) in enumerate(bounds) if number in times_ms]
    result = bytearray(batch[:HEADER_SIZE])
    result += _ENCODE[header.codec](b"".join(stays))
    struct.pack_into(">i", result, 8, len(result) - LENGTH_OVERHEAD)
    struct.pack_into(">i", result, HEADER_SIZE - 4, len(times_ms))
    # The log's own time is the header's: records have none of their own then.
    if not header.is_log_append_time:
        struct.pack_into(">q", result, MAX_TIMESTAMP_AT, max(times_ms.values()))
    struct.pack_into(">I", result, CRC_AT, crc32c(memoryview(result)[ATTRIBUTES_AT:]))
    return bytes(result)


def _bounds_of(payload: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Where each record starts and ends: a zigzag length, then so many bytes."""
    at = 0
    for _ in range(count):
        start = at
        value = shift = 0
        while True:
            byte = payload[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        at += value >> 1
        yield start, at


bound_decompression()
