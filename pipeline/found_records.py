"""The records of a fetch as columns over its bytes, with no object for any of them.

Kernels find where each key, value and header is; who asks for one gets it then. pipeline/bulk.py
reads fetches this way as soon as the kernels are there, and by aiokafka's objects until then: both
give the same records, which a test shows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from aiokafka.record.util import decode_varint
from crc32c import crc32c

from pipeline.bounded_codecs import DECODERS, UNPACKED_BYTES_MAX
from pipeline.bounded_headers import HEADERS_MAX
from pipeline.fetch_bounds import FetchSize
from pipeline.lanes import OWN_HEADERS
from schemas.blobs import Blobs
from schemas.records import Headers, Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_START = struct.Struct(">qi")
"""Of every batch: its first offset, and how many bytes follow these two numbers."""

RECORDS_MAX = 2**20
"""Of one batch; no client writes as many. One with more counts as one that cannot be read: a few
bytes may unpack to millions of records, each of which costs more than its bytes."""

MAGIC_AT = 16
MAGIC = 2
"""Of the format in which records can be found; lower numbers are older formats."""

HEADER_BYTES = 61
_ATTRIBUTES_AT = 21
_COUNT_AT = 57
_COUNT = struct.Struct(">i")
_RECORD_BYTES_MIN = 7
"""Its length, attributes, time, offset, and that it has no key, value or headers."""

_RECORDS = struct.Struct(">hiqqqhii")
"""From the attributes on: those, the last offset, the first and greatest time, the producer's id,
epoch and sequence, and how many records there are."""

_CODECS = 7
_LOG_APPEND_TIME = 8

_OWN_HEADERS: dict[bytes | None, str] = {name.encode(): name for name in OWN_HEADERS}


class _Batch(NamedTuple):
    """Where the records of a batch are: in the bytes of the fetch, or decompressed."""

    data: memoryview | bytes
    start: int
    records: int
    base_offset: int
    last_delta: int
    first_ms: int
    """When the batch's first record was made; log time, if the log stamps records itself."""
    is_log_time: bool


class FoundHeaders(Sequence[Headers]):
    """The headers of records that Tally goes by, read when they are asked for."""

    def __init__(self, data: NDArray[np.uint8], places: NDArray[np.int64]) -> None:
        self._data = data
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, which: int) -> Headers: ...
    @overload
    def __getitem__(self, which: slice) -> FoundHeaders: ...
    def __getitem__(self, which: int | slice) -> Headers | FoundHeaders:
        if isinstance(which, slice):
            return FoundHeaders(self._data, self._places[which])
        buffer = memoryview(self._data.data)
        count, at = decode_varint(buffer, int(self._places[which]))
        headers = []
        for _ in range(count):
            name, at = _blob(buffer, at)
            value, at = _blob(buffer, at)
            if name in _OWN_HEADERS:
                headers.append((_OWN_HEADERS[name], value))
        return tuple(headers)  # type: ignore[arg-type]  # a header without a value has None


def _blob(buffer: memoryview, at: int) -> tuple[bytes | None, int]:
    size, at = decode_varint(buffer, at)
    return (None, at) if size < 0 else (bytes(buffer[at : at + size]), at + size)


def has_places(raw: bytes) -> bool:
    """Whether all batches of a fetch are of the format in which records can be found.

    A broker may cut a fetch off within its last batch, which is then nobody's to read.
    """
    at = 0
    while at + MAGIC_AT < len(raw):
        after = after_batch(raw, at)
        # The checksum does not cover the length, so a damaged one may be anything.
        if raw[at + MAGIC_AT] != MAGIC or after < at + HEADER_BYTES:
            return False
        at = after
    return True


def claimed_records(raw: bytes, at: int) -> int:
    """How many records the batch at a place says that it has."""
    count: int = _COUNT.unpack_from(raw, at + _COUNT_AT)[0]
    return count


def after_batch(raw: bytes, at: int) -> int:
    """Where the batch at a place ends, by what it says itself: that may be anywhere."""
    _, size = BATCH_START.unpack_from(raw, at)
    return at + BATCH_START.size + int(size)


class FoundRecords:
    """Takes the batches of one fetch, and finds the records of all of them at once."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self._batches: list[_Batch] = []
        self._are_readable = True
        self.size = FetchSize()

    def is_whole(self, batch: Any) -> bool:
        """Whether the next batch has the checksum that it says it has."""
        end = after_batch(self._raw, self._at)
        return bool(crc32c(memoryview(self._raw)[self._at + _ATTRIBUTES_AT : end]) == batch.crc)

    def skip(self, _batch: Any) -> None:
        """Pass the next batch over."""
        self._at = after_batch(self._raw, self._at)

    def take(self, _batch: Any) -> None:
        """Take the next batch. Never raises: `records` tells if it cannot be read."""
        start, self._at = self._at, after_batch(self._raw, self._at)
        base_offset, _ = BATCH_START.unpack_from(self._raw, start)
        attributes, last_delta, first_ms, greatest_ms, *_, count = _RECORDS.unpack_from(
            self._raw, start + _ATTRIBUTES_AT
        )
        data: memoryview | bytes = memoryview(self._raw)[start + HEADER_BYTES : self._at]
        size = len(data)
        if codec := attributes & _CODECS:
            unpacked = _decompressed(data, codec)
            self._are_readable &= unpacked is not None
            data = unpacked or b""
            # To find that it cannot be unpacked may have cost as much as the most that may be.
            size = UNPACKED_BYTES_MAX if unpacked is None else len(unpacked)
        self.size.add(max(count, 0), size)
        if not 0 < count <= min(len(data) // _RECORD_BYTES_MIN, RECORDS_MAX):
            # Compaction may leave a batch of which no record is left.
            self._are_readable &= count == 0 and len(data) == 0
            return
        is_log_time = bool(attributes & _LOG_APPEND_TIME)
        since_ms = greatest_ms if is_log_time else first_ms
        self._batches.append(
            _Batch(
                data, start + HEADER_BYTES, count, base_offset, last_delta, since_ms, is_log_time
            )
        )

    def records(self, partition: int) -> Records | None:
        """The records of all batches that were taken; None if one cannot be read. Never raises."""
        if not self._are_readable:
            return None
        from pipeline.native.records import find_records  # noqa: PLC0415 - kernels are loaded late

        data, starts = self._joined()
        total = sum(batch.records for batch in self._batches)
        offsets, times_ms, headers_at = np.empty((3, total), np.int64)
        blobs = np.empty((4, total), np.int64)
        is_marked = np.empty(total, np.bool_)
        row = 0
        for batch, start in zip(self._batches, starts, strict=True):
            end = start + len(batch.data)
            out = (offsets, times_ms, blobs, headers_at, is_marked)
            if not find_records(data, start, end, row, batch.records, HEADERS_MAX, *out):
                return None
            rows = slice(row, row + batch.records)
            deltas = offsets[rows]
            is_placed = deltas[0] >= 0 and deltas[-1] <= batch.last_delta
            if not (is_placed and bool((deltas[1:] > deltas[:-1]).all())):
                return None
            offsets[rows] += batch.base_offset
            if batch.is_log_time:
                times_ms[rows] = batch.first_ms
            else:
                times_ms[rows] += batch.first_ms
            row += batch.records
        return Records(
            partition,
            offsets,
            times_ms,
            Blobs(data, blobs[0], blobs[1]),
            Blobs(data, blobs[2], blobs[3]),
            FoundHeaders(data, headers_at),
            is_marked,
            np.array([batch.base_offset for batch in self._batches], np.int64),
        )

    def _joined(self) -> tuple[NDArray[np.uint8], list[int]]:
        """The bytes that all records are in, and where those of each batch start."""
        if all(isinstance(batch.data, memoryview) for batch in self._batches):
            return np.frombuffer(self._raw, np.uint8), [batch.start for batch in self._batches]
        starts = np.cumsum([0, *(len(batch.data) for batch in self._batches)])
        joined = b"".join(batch.data for batch in self._batches)
        return np.frombuffer(joined, np.uint8), starts[:-1].tolist()


def _decompressed(data: memoryview | bytes, codec: int) -> bytes | None:
    try:
        return bytes(DECODERS[codec](bytes(data)))
    except Exception:  # each codec has errors of its own
        return None
