"""Plain JSON events to columns, without an object for any of them.

Nearly every event that is sent is plain: a flat object with texts that need no unescaping, and
whole numbers. Such a value is read here, in one pass over its bytes, and checked against all
limits of the event. Whatever else a value holds, right or wrong, is left to the decoder that knows
everything (pipeline/decode_json.py): so this one may be narrow, but never mistaken. A property test
holds the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from pipeline.native.kernel import BYTES, BYTES_OUT, INT64, INT64_OUT, kernel, within_kernels
from pipeline.native.scanning import (
    CLOSE,
    COLON,
    COMMA,
    OPEN,
    STAR,
    after_other,
    after_space,
    find_quotes,
    moment_ms,
    whole_number,
    word,
    word_of,
)
from schemas.events import (
    COUNTER_MAX_BYTES,
    DELTA_DEFAULT,
    DELTA_MAX,
    ID_MAX_BYTES,
    MEMBER_MAX_BYTES,
    REGION_MAX_BYTES,
)
from schemas.times import AT_MAX_MS, AT_MIN_MS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Int64s = NDArray[np.int64]

TEXTS = ("counter", "member", "region", "id")
"""The fields that are texts, by their number in `read_events`."""

_COUNTER, _MEMBER, _REGION, _ID, _DELTA, _AT, _OTHER = range(7)
_WORD_COUNTER, _WORD_MEMBER, _WORD_REGION = map(word_of, (b"counter", b"member", b"region"))
_WORD_ID, _WORD_DELTA, _WORD_AT = map(word_of, (b"id", b"delta", b"at"))
_NONE = -1
_VALUE_BYTES_MAX = 4096
QUOTES_MAX = _VALUE_BYTES_MAX + 2


@within_kernels
def _field(key: np.uint64) -> int:
    """Which field a key names."""
    if key == _WORD_COUNTER:
        return _COUNTER
    if key == _WORD_DELTA:
        return _DELTA
    if key == _WORD_AT:
        return _AT
    if key == _WORD_MEMBER:
        return _MEMBER
    if key == _WORD_REGION:
        return _REGION
    if key == _WORD_ID:
        return _ID
    return _OTHER


@within_kernels
def _is_counter(data: Bytes, start: int, end: int) -> bool:
    """Whether a text has a family and a key."""
    if not 3 <= end - start <= COUNTER_MAX_BYTES:
        return False
    for at in range(start, end):
        if data[at] == COLON:
            return start < at < end - 1
    return False


@within_kernels
def _is_in_bounds(data: Bytes, field: int, start: int, end: int) -> bool:
    """Whether a text may be what its field says."""
    size = end - start
    if field == _COUNTER:
        return _is_counter(data, start, end)
    if field == _MEMBER:
        return 0 < size <= MEMBER_MAX_BYTES
    if field == _ID:
        return 0 < size <= ID_MAX_BYTES
    return size <= REGION_MAX_BYTES and not (size == 1 and data[start] == STAR)


@within_kernels
def _read_one(
    data: Bytes,
    start: int,
    end: int,
    row: int,
    quotes: Any,
    starts: Any,
    sizes: Any,
    delta: Int64s,
    at_ms: Int64s,
) -> bool:
    """Read one value into its row; False if it is left to others."""
    for field in range(len(TEXTS)):
        starts[field, row], sizes[field, row] = start, _NONE
    delta[row], at_ms[row] = DELTA_DEFAULT, _NONE
    if find_quotes(data, start, end, quotes) < 0:
        return False
    at = after_space(data, start, end)
    if at >= end or data[at] != OPEN:
        return False
    at = after_space(data, at + 1, end)
    seen = quote = 0
    while True:
        if quotes[quote] != at or quotes[quote + 1] < 0:
            return False
        field = _field(word(data, at + 1, quotes[quote + 1]))
        at = after_space(data, quotes[quote + 1] + 1, end)
        quote += 2
        if at >= end or data[at] != COLON:
            return False
        at = after_space(data, at + 1, end)
        if at >= end:
            return False
        if field != _OTHER and seen >> field & 1:
            return False
        seen |= 1 << field
        if quotes[quote] == at:
            value_end = quotes[quote + 1]
            quote += 2
            if value_end < 0 or field == _DELTA:
                return False
            if field == _AT:
                at_ms[row] = moment_ms(data, at + 1, value_end)
                if not AT_MIN_MS <= at_ms[row] <= AT_MAX_MS:
                    return False
            elif field != _OTHER:
                if not _is_in_bounds(data, field, at + 1, value_end):
                    return False
                starts[field, row], sizes[field, row] = at + 1, value_end - at - 1
            at = value_end + 1
        elif field == _DELTA or field == _AT:
            number, value_end = whole_number(data, at, end)
            if value_end < 0:
                return False
            if field == _AT:
                if not AT_MIN_MS <= number <= AT_MAX_MS:
                    return False
                at_ms[row] = number
            else:
                if number == 0 or not -DELTA_MAX <= number <= DELTA_MAX:
                    return False
                delta[row] = number
            at = value_end
        elif field == _OTHER:
            at = after_other(data, at, end)
            if at < 0:
                return False
        else:
            return False
        at = after_space(data, at, end)
        if at >= end:
            return False
        if data[at] == CLOSE:
            return after_space(data, at + 1, end) == end and seen & 1 == 1
        if data[at] != COMMA:
            return False
        at = after_space(data, at + 1, end)


@kernel(
    types.int64(
        BYTES,
        INT64,
        INT64,
        types.int64[:, ::1],
        types.int64[:, ::1],
        INT64_OUT,
        INT64_OUT,
        BYTES_OUT,
        INT64_OUT,
    )
)
def read_events(
    data: Bytes,
    value_starts: Int64s,
    value_sizes: Int64s,
    starts: Int64s,
    sizes: Int64s,
    delta: Int64s,
    at_ms: Int64s,
    is_left: Bytes,
    quotes: Int64s,
) -> int:
    """Read the values at `value_starts`, each of so many bytes, which lie within `data`.

    For each: where its texts start, by their number in TEXTS, and their sizes, -1 for those that it
    does not have; its delta; its time, -1 if it has none. `is_left` is 1 for those that others must
    read, whose rows then mean nothing. Returns how many those are. `quotes` is room for QUOTES_MAX
    numbers.
    """
    left = 0
    for row in range(len(value_starts)):
        start, size = value_starts[row], value_sizes[row]
        if 0 <= size <= _VALUE_BYTES_MAX and _read_one(
            data, start, start + size, row, quotes, starts, sizes, delta, at_ms
        ):
            is_left[row] = 0
        else:
            is_left[row] = 1
            left += 1
    return left
