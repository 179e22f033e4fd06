"""The records of a batch, found by their places: no object is made for any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import int64, types, uint64

from pipeline.native.kernel import BOOLS_OUT, BYTES, INT64_OUT, kernel, within_kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Int64s = NDArray[np.int64]
    Bools = NDArray[np.bool_]

NOT_WHOLE = -1
_VARINT_BYTES_MAX = 10
_CONTINUED = 128


@within_kernels
def _varint(data: Bytes, at: int, end: int) -> Any:
    """A number as records write it, and where it ends: NOT_WHOLE if it does not."""
    found, shift = uint64(0), uint64(0)
    for place in range(at, min(end, at + _VARINT_BYTES_MAX)):
        byte = uint64(data[place])
        found |= (byte & uint64(127)) << shift
        if byte < uint64(128):
            # The lowest bit is the sign.
            return int64(found >> uint64(1)) ^ -int64(found & uint64(1)), place + 1
        shift += uint64(7)
    return int64(0), NOT_WHOLE


@within_kernels
def _is(data: Bytes, at: int, size: int, word: bytes) -> bool:
    if size != len(word):
        return False
    for place in range(size):
        if data[at + place] != word[place]:
            return False
    return True


@within_kernels
def _after_blob(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Where a blob starts, its size (-1 for none), and where it ends."""
    size, start = _varint(data, at, end)
    if start < 0 or size < -1 or size > end - start:
        return 0, 0, NOT_WHOLE
    return start, size, start + max(size, 0)


@within_kernels
def _after_headers(data: Bytes, at: int, end: int) -> tuple[int, bool, int]:
    """How many headers there are, whether Tally goes by one of them, and where they end."""
    count, at = _varint(data, at, end)
    if at < 0 or count < 0 or count > end - at:
        return 0, False, NOT_WHOLE
    is_marked = False
    for _ in range(count):
        start, size, at = _after_blob(data, at, end)
        if at < 0 or size < 0:
            return 0, False, NOT_WHOLE
        is_marked = (
            is_marked
            or _is(data, start, size, b"tally-kind")
            or _is(data, start, size, b"content-type")
            or _is(data, start, size, b"tally-retry")
            or _is(data, start, size, b"tally-unreadable")
        )
        _, _, at = _after_blob(data, at, end)
        if at < 0:
            return 0, False, NOT_WHOLE
    return count, is_marked, at


@kernel(
    types.boolean(
        BYTES,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        INT64_OUT,
        INT64_OUT,
        types.int64[:, ::1],
        INT64_OUT,
        BOOLS_OUT,
    )
)
def find_records(
    data: Bytes,
    at: int,
    end: int,
    first: int,
    count: int,
    headers_max: int,
    offset_deltas: Int64s,
    time_deltas: Int64s,
    blobs: Int64s,
    headers_at: Int64s,
    is_marked: Bools,
) -> bool:
    """Find the `count` records between two places; their rows begin with `first`.

    For each: its offset and its time since the batch's; in `blobs` the start and the size of its
    key and of its value, a size of -1 for none; where its headers are; whether one of them is among
    those that tell what a record is. False if the bytes are no such records, or if these have more
    than `headers_max` headers: rows then mean nothing.
    """
    headers = 0
    for row in range(first, first + count):
        size, start = _varint(data, at, end)
        if start < 0 or size < 1 or size > end - start:
            return False
        if data[start] >= _CONTINUED:
            # Attributes that nobody sets: aiokafka takes them for the first byte of a number.
            return False
        record_end = start + size
        time_deltas[row], at = _varint(data, start + 1, record_end)  # after the attributes
        if at < 0:
            return False
        offset_deltas[row], at = _varint(data, at, record_end)
        if at < 0:
            return False
        blobs[0, row], blobs[1, row], at = _after_blob(data, at, record_end)
        if at < 0:
            return False
        blobs[2, row], blobs[3, row], at = _after_blob(data, at, record_end)
        if at < 0:
            return False
        headers_at[row] = at
        own, is_marked[row], at = _after_headers(data, at, record_end)
        headers += own
        if at != record_end or headers > headers_max:
            return False
    return at == end
