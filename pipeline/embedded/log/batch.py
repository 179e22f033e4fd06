"""The 61-byte header of a record batch (format 2): reading it, checking it, stamping it."""

import struct
from typing import NamedTuple

from crc32c import crc32c
from kio.schema.errors import ErrorCode

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LENGTH_OVERHEAD = 12  # base offset and length are not counted in the length field
CRC_AT = 17
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35
MAGIC_AT = 16

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
CODEC_MAX = 4
NO_PRODUCER = -1
SEQUENCE_MODULUS = 2**31

RECORDS_MAX = 100_000
"""Of one batch. A compressed batch of a few hundred bytes may hold millions, and whoever opens it
pays for each. A changelog's batches, of 512 KiB before compression, cannot hold as many."""

# Length, attributes, time, offset, key, value and headers: no record has fewer bytes.
RECORD_BYTES_MIN = 7

assert HEADER_SIZE == 61


class RejectedBatchError(Exception):
    """A batch the log does not take; `code` is what the protocol calls the reason."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class BatchHeader(NamedTuple):
    """The fields in the order they are stored."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.length + LENGTH_OVERHEAD

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_MODULUS

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)


def read_header(buffer: bytes | bytearray | memoryview, at: int = 0) -> BatchHeader:
    """The header at `at`; raises struct.error when fewer than 61 bytes are left."""
    return BatchHeader._make(HEADER.unpack_from(buffer, at))


def is_intact(batch: memoryview, header: BatchHeader) -> bool:
    """True when the bytes are one whole batch whose checksum holds."""
    return (
        header.magic == 2
        and header.length >= HEADER_SIZE - LENGTH_OVERHEAD
        and len(batch) == header.size
        and header.last_offset_delta >= 0
        and crc32c(batch[ATTRIBUTES_AT:]) == header.crc
    )


def admit(batch: memoryview, max_message_bytes: int) -> BatchHeader:
    """The header of a batch as it was sent; raises RejectedBatchError for what is not stored."""
    if len(batch) <= MAGIC_AT:
        raise RejectedBatchError(ErrorCode.corrupt_message, "shorter than a batch header")
    if batch[MAGIC_AT] != 2:
        raise RejectedBatchError(
            ErrorCode.unsupported_for_message_format, "only record batches of format 2 are stored"
        )
    if len(batch) < HEADER_SIZE:
        raise RejectedBatchError(ErrorCode.corrupt_message, "shorter than a batch header")
    header = read_header(batch)
    if header.length >= HEADER_SIZE - LENGTH_OVERHEAD and header.size < len(batch):
        raise RejectedBatchError(ErrorCode.invalid_record, "more than one batch in a partition")
    if len(batch) > max_message_bytes:
        raise RejectedBatchError(ErrorCode.message_too_large, "larger than max.message.bytes")
    if not is_intact(batch, header):
        raise RejectedBatchError(ErrorCode.corrupt_message, "checksum or length does not hold")
    if header.attributes & CONTROL or header.record_count <= 0:
        raise RejectedBatchError(ErrorCode.invalid_record, "a producer may not send this batch")
    if header.last_offset_delta != header.record_count - 1:
        raise RejectedBatchError(ErrorCode.invalid_record, "offsets in the batch have gaps")
    if header.record_count > RECORDS_MAX:
        raise RejectedBatchError(ErrorCode.invalid_record, f"more than {RECORDS_MAX} records")
    is_plain = header.codec == 0
    if is_plain and header.record_count * RECORD_BYTES_MIN > len(batch) - HEADER_SIZE:
        raise RejectedBatchError(ErrorCode.invalid_record, "more records than its bytes can hold")
    if header.attributes & TRANSACTIONAL:
        raise RejectedBatchError(ErrorCode.invalid_txn_state, "transactions are not supported")
    if header.codec > CODEC_MAX:
        raise RejectedBatchError(
            ErrorCode.unsupported_compression_type, "compression codec is not known"
        )
    return header


def stamp(batch: memoryview, header: BatchHeader, offset: int, append_time_ms: int | None) -> None:
    """Write the log's offset, and its time where it counts, into a writable batch, in place.

    The checksum does not cover offset and leader epoch: only a changed timestamp costs a new one.
    """
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">i", batch, 12, 0)
    attributes = header.attributes & ~LOG_APPEND_TIME
    if append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, append_time_ms)
    if append_time_ms is not None or attributes != header.attributes:
        struct.pack_into(">h", batch, ATTRIBUTES_AT, attributes)
        struct.pack_into(">I", batch, CRC_AT, crc32c(batch[ATTRIBUTES_AT:]))
