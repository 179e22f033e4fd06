"""The event's limits over whole columns: which rows the model would refuse, without asking it.

The same limits as in schemas/events.py, which stays the definition: a property test shows that the
two agree, and the reason for a refused row is always the model's.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.events import (
    ALL_REGIONS,
    COUNTER_MAX_BYTES,
    DELTA_MAX,
    ID_MAX_BYTES,
    MEMBER_MAX_BYTES,
    REGION_MAX_BYTES,
)
from schemas.frame_columns import starts_and_bytes
from schemas.times import AT_MAX_MS, AT_MIN_MS

Mask = npt.NDArray[np.bool_]

_COLON = ord(":")


def bad_rows(columns: pa.Table) -> Mask:
    """True for each row that is no event.

    The columns have FRAME_SCHEMA's types, and only `counter`, `member` and `id` hold nulls.
    """
    bad = _bad_delta(columns.column("delta")) | bad_times(columns)
    bad |= _over_chunks(columns.column("counter"), _bad_counter)
    bad |= _over_chunks(columns.column("member"), _bad_member)
    bad |= _over_chunks(columns.column("region"), _bad_region)
    bad |= _over_chunks(columns.column("id"), _bad_id)
    return bad


def _bad_delta(column: pa.ChunkedArray) -> Mask:
    delta: npt.NDArray[np.int64] = column.to_numpy()
    if _all_within(delta, 1, DELTA_MAX):
        return np.zeros(len(delta), np.bool_)
    bad: Mask = (delta == 0) | (delta > DELTA_MAX) | (delta < -DELTA_MAX)
    return bad


def bad_times(columns: pa.Table) -> Mask:
    """True for each row whose time is out of bounds."""
    at_ms: npt.NDArray[np.int64] = columns.column("at").to_numpy()
    if _all_within(at_ms, AT_MIN_MS, AT_MAX_MS):
        return np.zeros(len(at_ms), np.bool_)
    bad: Mask = (at_ms < AT_MIN_MS) | (at_ms > AT_MAX_MS)
    return bad


def _all_within(numbers: npt.NDArray[np.int64], least: int, greatest: int) -> bool:
    """The common case, in a fraction of the time."""
    return len(numbers) > 0 and bool(numbers.min() >= least and numbers.max() <= greatest)


def _over_chunks(column: pa.ChunkedArray, check: Callable[[pa.StringArray], Mask]) -> Mask:
    if column.null_count == len(column):
        return np.full(len(column), check is _bad_counter)
    return np.concatenate([check(chunk) for chunk in column.chunks])


def _bad_counter(texts: pa.StringArray) -> Mask:
    bad = _bad_text(texts, COUNTER_MAX_BYTES, empty_is_bad=True)
    if texts.null_count:
        bad |= _nulls(texts)
    return bad | _without_family_or_key(texts)


def _bad_member(texts: pa.StringArray) -> Mask:
    return _bad_text(texts, MEMBER_MAX_BYTES, empty_is_bad=True)


def _bad_id(texts: pa.StringArray) -> Mask:
    return _bad_text(texts, ID_MAX_BYTES, empty_is_bad=True)


def _bad_region(texts: pa.StringArray) -> Mask:
    bad = _bad_text(texts, REGION_MAX_BYTES, empty_is_bad=False)
    starts, data = starts_and_bytes(texts)
    alone = np.flatnonzero(np.diff(starts) == 1)
    bad[alone[data[starts[alone]] == ord(ALL_REGIONS)]] = True
    return bad


def _bad_text(texts: pa.StringArray, max_bytes: int, *, empty_is_bad: bool) -> Mask:
    starts, data = starts_and_bytes(texts)
    lengths = np.diff(starts)
    bad: Mask = lengths > max_bytes
    if empty_is_bad:
        bad |= lengths == 0
    used = data[starts[0] : starts[-1]]
    if len(used) and used.min() == 0:
        bad |= pc.match_substring(texts, "\0").fill_null(False).to_numpy(zero_copy_only=False)
    if texts.null_count:
        bad &= ~_nulls(texts)
    return bad


def _without_family_or_key(texts: pa.StringArray) -> Mask:
    """True where no byte is a colon, or the first one that is has nothing before or after it."""
    starts, data = starts_and_bytes(texts)
    first, last = int(starts[0]), int(starts[-1])
    colons = np.flatnonzero(data[first:last] == _COLON) + first
    if len(colons) == len(texts):
        # The common case, found without a search per row: every row has a colon of its own.
        inside = (colons > starts[:-1]) & (colons < starts[1:] - 1)
        if inside.all():
            return np.zeros(len(texts), bool)
    found = pc.find_substring(texts, ":").fill_null(-1).to_numpy(zero_copy_only=False)
    bad: Mask = (found < 1) | (found == np.diff(starts) - 1)
    return bad


def _nulls(texts: pa.StringArray) -> Mask:
    nulls: Mask = texts.is_null().to_numpy(zero_copy_only=False)
    return nulls
