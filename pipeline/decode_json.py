"""JSON values to columns, fast: msgspec reads them all, and the model reads what gives it pause.

msgspec was compared with the model's JSON reader. What msgspec takes and the model does not lies in
ignored fields only: bytes that are not UTF-8, nesting beyond 200 levels, whole numbers of more than
4300 digits. Such values are sent to the model before msgspec sees them; what msgspec refuses the
model reads again. So both agree by construction, and a property test looks for the rest.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BadInputError
from schemas.blobs import Blobs
from schemas.events import DELTA_DEFAULT, REGION_DEFAULT, read_event
from schemas.frame_columns import REFUSED_AT, REFUSED_DELTA, times_from_text
from schemas.frames import FRAME_SCHEMA

_INT64_MAX = 2**63 - 1

# So many values' objects stay in the processor's cache between the passes over them; measured, a
# fifth quicker than all at once.
_SLICE = 4096

# 200 levels take an opening and a closing byte each, so shorter values cannot nest too deeply.
_DEPTH_MAX = 200
_SURELY_FLAT_BYTES = 2 * _DEPTH_MAX
_DIGITS_MAX = 4300


class _Increment(msgspec.Struct, gc=False):
    """An event as msgspec reads it: types only, no limits.

    None stands for the default: columns of None are made several times quicker than others, and
    Arrow fills them in.
    """

    counter: str | None = None
    delta: int | None = None
    at: int | str | None = None
    member: str | None = None
    region: str | None = None
    id: str | None = None


_REFUSED = _Increment()
_NO_ROWS = FRAME_SCHEMA.empty_table()
_decode = msgspec.json.Decoder(_Increment).decode


class Read(NamedTuple):
    """JSON values as columns of FRAME_SCHEMA, a row for each.

    The row of a refused value has no counter, so the checks refuse it too. Other rows are typed and
    have their defaults, but for `at`. `reasons` has why, for each row known as bad. `are_checked`
    tells that all rows are within the event's limits; else they are not yet checked against them.
    """

    columns: pa.Table
    reasons: dict[int, str]
    are_checked: bool = False


def read_json(values: Sequence[bytes]) -> Read:
    """Read each value. Never raises."""
    if isinstance(values, Blobs):
        return _read_blobs(values)
    reasons: dict[int, str] = {}
    tables = [] if values else [_NO_ROWS]
    for start in range(0, len(values), _SLICE):
        table, reasons_of_slice = _read_slice(values[start : start + _SLICE])
        tables.append(table)
        reasons.update((start + row, reason) for row, reason in reasons_of_slice.items())
    return Read(pa.concat_tables(tables), reasons)


def _read_blobs(values: Blobs) -> Read:
    """By the kernel what it can read, the rest as ever."""
    from pipeline.native.plain import read_plain  # noqa: PLC0415 - where there are blobs, there are kernels

    plain, left = read_plain(values)
    if not left.size:
        return Read(plain, {}, are_checked=True)
    others = read_json([value for value in values.take(left) if value is not None])
    order = np.empty(len(values), np.int64)
    order[np.append(np.delete(np.arange(len(values)), left), left)] = np.arange(len(values))
    columns = pa.concat_tables([plain, others.columns]).take(pa.array(order))
    return Read(columns, {int(left[row]): why for row, why in others.reasons.items()})


def _read_slice(values: Sequence[bytes]) -> tuple[pa.Table, dict[int, str]]:
    reasons: dict[int, str] = {}
    increments = _read_all(values, reasons)
    columns = [
        pa.array(list(map(attrgetter("counter"), increments)), pa.string()),
        _deltas(list(map(attrgetter("delta"), increments))),
        _times(list(map(attrgetter("at"), increments))),
        pa.array(list(map(attrgetter("member"), increments)), pa.string()),
        pa.array(list(map(attrgetter("region"), increments)), pa.string()).fill_null(
            REGION_DEFAULT
        ),
        pa.array(list(map(attrgetter("id"), increments)), pa.string()),
    ]
    return pa.table(columns, schema=FRAME_SCHEMA), reasons


def _read_all(values: Sequence[bytes], reasons: dict[int, str]) -> list[_Increment]:
    increments: list[_Increment] = []
    remaining = map(_decode, _without_doubtful(values))
    while True:
        try:
            # When a value raises, what was read before it stays in the list and the iterator goes
            # on after it: one bad value costs itself, and no statement runs for a good one.
            increments.extend(remaining)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            row = len(increments)
            increments.append(_read_by_model(values[row], row, reasons))
        else:
            return increments


def _read_by_model(value: bytes, row: int, reasons: dict[int, str]) -> _Increment:
    try:
        event = read_event(value)
    except BadInputError as error:
        reasons[row] = str(error)
        return _REFUSED
    return _Increment(**dict(event))


def _without_doubtful(values: Sequence[bytes]) -> Sequence[bytes]:
    """The values, with an empty one, which msgspec refuses, for each that the model must read."""
    candidates = values
    # A line feed continues no character, so the join is UTF-8 only if each value is.
    if not _is_utf8(b"\n".join(values)):
        candidates = [value if _is_utf8(value) else b"" for value in candidates]
    if max(map(len, values), default=0) > _SURELY_FLAT_BYTES:
        candidates = [b"" if _may_be_too_deep_or_long(value) else value for value in candidates]
    return candidates


def _is_utf8(value: bytes) -> bool:
    if value.isascii():
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _may_be_too_deep_or_long(value: bytes) -> bool:
    if len(value) <= _SURELY_FLAT_BYTES:
        return False
    return len(value) > _DIGITS_MAX or value.count(b"[") + value.count(b"{") >= _DEPTH_MAX


def _deltas(numbers: list[int | None]) -> pa.Array:
    try:
        column = pa.array(numbers, pa.int64())
    except OverflowError:
        fitting = [REFUSED_DELTA if n is not None and abs(n) > _INT64_MAX else n for n in numbers]
        column = pa.array(fitting, pa.int64())
    return column.fill_null(DELTA_DEFAULT)


def _times(moments: list[int | str | None]) -> pa.Array:
    """Milliseconds; null where the log's time is meant, REFUSED_AT where it is no time."""
    try:
        return pa.array(moments, pa.int64())
    except (pa.ArrowException, OverflowError, TypeError):
        pass
    numbers = [m if isinstance(m, int) and abs(m) <= _INT64_MAX else REFUSED_AT for m in moments]
    texts = pa.array([m if isinstance(m, str) else None for m in moments], pa.string())
    read = pc.coalesce(times_from_text(texts), pa.array(numbers, pa.int64()))
    missing = pa.array([m is None for m in moments], pa.bool_())
    return pc.if_else(missing, pa.scalar(None, pa.int64()), read)
