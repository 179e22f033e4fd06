"""Whether a batch has more headers than anybody means to send, found before they are made.

A few bytes may unpack to tens of millions of headers, and as objects they take a hundred times the
bytes: gigabytes that a worker or the embedded log would die of, for as long as the log has them.
"""

from __future__ import annotations

import struct

from aiokafka.record.util import decode_varint

from pipeline.bounded_codecs import DECODERS

HEADERS_MAX = 2**20
"""Of all records of a batch. One with more counts as one that cannot be read."""

_HEADER_BYTES_MIN = 2
"""The lengths of a name and of a value that are empty."""

_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_CODECS = 7
_COUNT = struct.Struct(">i")
_COUNT_AT = 57
_RECORDS_AT = 61

_BEYOND = bytes(64)
"""aiokafka's reader of numbers does not know where the bytes end: four of them fit in here."""


def has_too_many_headers(batch: bytes | memoryview) -> bool:
    """Whether the records of a whole batch of format 2 say that they have. Never raises.

    What cannot be unpacked, or is no record, ends the look: whoever reads it finds that, too, with
    no more headers in hand than were seen until there.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    data: bytes | memoryview = memoryview(batch)[_RECORDS_AT:]
    if codec := attributes & _CODECS:
        try:
            data = DECODERS[codec](bytes(data))
        except Exception:  # each codec has errors of its own
            return False
    if len(data) <= _HEADER_BYTES_MIN * HEADERS_MAX:
        return False
    (count,) = _COUNT.unpack_from(batch, _COUNT_AT)
    try:
        return _have_too_many(bytes(data) + _BEYOND, len(data), count)
    except ValueError:  # a number that does not end
        return False


def _have_too_many(data: bytes, end: int, records: int) -> bool:
    headers = at = 0
    for _ in range(records):
        size, at = decode_varint(data, at)
        record_end = at + size
        for _ in range(3):  # its attributes, as aiokafka reads them, its time and its offset
            _, at = decode_varint(data, at)
        for _ in range(2):  # its key and its value
            size, at = decode_varint(data, at)
            at += max(size, 0)
            if at > end:
                return False
        count, at = decode_varint(data, at)
        headers += max(count, 0)
        if headers > HEADERS_MAX:
            return True
        if not at <= record_end <= end:
            return False
        at = record_end
    return False
