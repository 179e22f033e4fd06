"""A frame's columns brought to the types of an event, whatever Arrow types the producer chose.

A value that does not fit the type becomes one that the checks refuse, so a bad row costs only
itself.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BadInputError
from schemas.events import (
    ALL_REGIONS,
    COUNTER_MAX_BYTES,
    ID_MAX_BYTES,
    MEMBER_MAX_BYTES,
    REGION_MAX_BYTES,
)
from schemas.frame_limits import MAX_TEXT_BYTES
from schemas.times import AT_MAX_MS, parse_rfc3339_ms

REFUSED_DELTA = 0
REFUSED_AT = -1
_REFUSED_TEXT = {"counter": "", "member": "", "region": ALL_REGIONS, "id": ""}
_MAX_BYTES = {
    "counter": COUNTER_MAX_BYTES,
    "member": MEMBER_MAX_BYTES,
    "region": REGION_MAX_BYTES,
    "id": ID_MAX_BYTES,
}
_UNITS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}

# What most producers write; Arrow reads it in bulk. The rest is read one by one.
_PLAIN_RFC3339 = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?Z\z"


def surely_valid(chunk: pa.Array) -> bool:
    """Whether the contents need no full validation, after pyarrow's quick one found no fault.

    That holds for numbers, and for ASCII text whose offsets ascend; looking is much quicker.
    """
    if pa.types.is_integer(chunk.type):
        return True
    if chunk.type != pa.string():
        return False
    starts, data = starts_and_bytes(chunk)
    if (starts[1:] < starts[:-1]).any():
        return False
    used = data[starts[0] : starts[-1]]
    return len(used) == 0 or bool(used.max() < 0x80)


def _whole(buffer: pa.Buffer | bytes, size: int) -> npt.NDArray[np.int32]:
    """The items of so many bytes in it; it may have some bytes more, and Arrow does not mind."""
    used = memoryview(buffer)
    return np.frombuffer(used[: len(used) // size * size], np.int32)


def starts_and_bytes(texts: pa.StringArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Where each text starts, with the end of the last one after it, and the bytes of all."""
    _, starts, data = texts.buffers()
    if starts is None or len(texts) == 0:
        return np.zeros(len(texts) + 1, np.int32), np.zeros(0, np.uint8)
    places = _whole(starts, 4)[texts.offset : texts.offset + len(texts) + 1]
    if data is None:
        return places, np.zeros(0, np.uint8)
    return places, np.frombuffer(data, np.uint8)


def as_text(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text of any Arrow sort as string. Raises BadInputError for other types and too much text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        _require_text(name, kind.value_type)
        chunks = [_expanded(name, chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, pa.string())
    _require_text(name, kind)
    if kind == pa.string():
        return column
    if sum(_text_bytes(chunk) for chunk in column.chunks) > MAX_TEXT_BYTES:
        raise BadInputError(f"{name}: more than {MAX_TEXT_BYTES} bytes in one frame")
    return column.cast(pa.string())


def _text_bytes(chunk: pa.Array) -> int:
    total: int = pc.sum(_lengths(chunk), min_count=0).as_py()
    return total


def _lengths(chunk: pa.Array) -> pa.Array:
    """The bytes of each text; null where it is null."""
    if not pa.types.is_string_view(chunk.type):
        return pc.binary_length(chunk)
    # A view is sixteen bytes and starts with its length; many may share the same text, and Arrow
    # has no kernel for their lengths. That of a null may be anything.
    views = _whole(chunk.buffers()[1] or b"", 16).reshape(-1, 4)
    lengths = views[chunk.offset : chunk.offset + len(chunk), 0].astype(np.int64)
    return pa.array(lengths, mask=chunk.is_null().to_numpy(zero_copy_only=False))


def repeated_text_bytes(name: str, column: pa.ChunkedArray) -> int:
    """How long all rows' texts are together, of a dictionary or of views, as `as_text` gives them.

    A column that it refuses has none.
    """
    if pa.types.is_string_view(column.type):
        return sum(_text_bytes(chunk) for chunk in column.chunks)
    if not pa.types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return 0
    return sum(_dictionary_text_bytes(name, chunk) for chunk in column.chunks)


def _dictionary_text_bytes(name: str, chunk: pa.DictionaryArray) -> int:
    if len(chunk) == 0:
        return 0
    lengths = _lengths(chunk.dictionary).cast(pa.int64())
    # Entries over the limit are blanked before they multiply.
    lengths = pc.if_else(pc.greater(lengths, _MAX_BYTES[name]), 0, lengths)
    total: int = pc.sum(pc.take(lengths, chunk.indices), min_count=0).as_py()
    return total


def _require_text(name: str, kind: pa.DataType) -> None:
    if not _is_text(kind):
        raise BadInputError(f"{name}: the column is {kind}; give text")


def _is_text(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_string_view(kind))


def _expanded(name: str, chunk: pa.DictionaryArray) -> pa.Array:
    """The chunk's rows as plain text. Entries over the limit are blanked before they multiply."""
    if _is_surely_small(name, chunk):
        return chunk.dictionary.take(chunk.indices)
    if _text_bytes(chunk.dictionary) > MAX_TEXT_BYTES:
        raise BadInputError(f"{name}: more than {MAX_TEXT_BYTES} bytes in one frame")
    written = chunk.dictionary.cast(pa.string())
    too_long = pc.fill_null(pc.greater(pc.binary_length(written), _MAX_BYTES[name]), False)
    entries = pc.if_else(too_long, _REFUSED_TEXT[name], written)
    total = pc.sum(pc.take(pc.binary_length(entries), chunk.indices), min_count=0).as_py()
    if total > MAX_TEXT_BYTES:
        raise BadInputError(f"{name}: more than {MAX_TEXT_BYTES} bytes in one frame")
    return pc.take(entries, chunk.indices)


def _is_surely_small(name: str, chunk: pa.DictionaryArray) -> bool:
    """Whether no entry is over the limit, and all rows together are not, found with one look."""
    if chunk.dictionary.type != pa.string():
        return False
    starts, _ = starts_and_bytes(chunk.dictionary)
    longest = int(np.diff(starts).max(initial=0))
    return (
        longest <= _MAX_BYTES[name]
        and starts[-1] - starts[0] <= MAX_TEXT_BYTES
        and longest * len(chunk) <= MAX_TEXT_BYTES
    )


def as_delta(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers of any width as int64. Raises BadInputError for other types."""
    return _as_int64("delta", column, REFUSED_DELTA, "whole numbers")


def as_at(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers, timestamps with a zone, or RFC 3339 text, as int64 milliseconds."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise BadInputError("at: the column's timestamps have no time zone; give them UTC")
        return _from_timestamps(column)
    if pa.types.is_dictionary(kind):
        raise BadInputError("at: the column is a dictionary; give plain milliseconds or text")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.chunked_array([times_from_text(column.cast(pa.string()).combine_chunks())])
    return _as_int64("at", column, REFUSED_AT, "milliseconds since 1970 or RFC 3339 text")


def _as_int64(name: str, column: pa.ChunkedArray, refused: int, wanted: str) -> pa.ChunkedArray:
    if pa.types.is_null(column.type):
        return column.cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise BadInputError(f"{name}: the column is {column.type}; give {wanted}")
    if column.type == pa.uint64():
        # Beyond int64 the cast would refuse the whole column for one row.
        fits = pc.less(column, pa.scalar(2**63, pa.uint64()))
        bounded = pc.if_else(fits, column, pa.scalar(0, pa.uint64()))
        return pc.if_else(fits, bounded.cast(pa.int64()), refused)
    return column.cast(pa.int64())


def _from_timestamps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    ticks = column.cast(pa.int64())
    if column.type.unit == "s":
        fits = pc.and_(pc.greater_equal(ticks, 0), pc.less_equal(ticks, AT_MAX_MS // 1000))
        seconds = pc.if_else(fits, ticks, 0)
        return pc.if_else(fits, pc.multiply(seconds, 1000), REFUSED_AT)
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    numbers: npt.NDArray[np.int64] = pc.fill_null(ticks, 0).to_numpy()
    # Floor division cuts off below in negative times as well.
    floored = numbers // _UNITS_PER_MS[column.type.unit]
    return pa.chunked_array([pa.array(floored, pa.int64(), mask=nulls)])


def times_from_text(texts: pa.StringArray) -> pa.Array:
    """RFC 3339 texts as int64 milliseconds; REFUSED_AT where it is none, null where it is null."""
    plain = pc.match_substring_regex(texts, _PLAIN_RFC3339)
    try:
        in_bulk = pc.if_else(plain, texts, None).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array(map(_time_from_text, texts.to_pylist()), pa.int64())
    rest = np.flatnonzero(pc.fill_null(pc.invert(plain), False).to_numpy(zero_copy_only=False))
    if len(rest) == 0:
        return in_bulk
    mask = np.zeros(len(texts), dtype=bool)
    mask[rest] = True
    read = pa.array(map(_time_from_text, texts.take(pa.array(rest)).to_pylist()), pa.int64())
    return pc.replace_with_mask(in_bulk, pa.array(mask), read)


def _time_from_text(text: str | None) -> int | None:
    if text is None:
        return None
    at_ms = parse_rfc3339_ms(text)
    return REFUSED_AT if at_ms is None else at_ms
