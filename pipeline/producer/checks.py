"""The event's own checks, made when an increment is given and not when it is counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BadInputError
from schemas.checks import bad_rows
from schemas.events import FIELDS, check_event
from schemas.frames import typed_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    from schemas.events import Event

    Column: TypeAlias = Sequence[object] | NDArray[Any] | pa.Array | pa.ChunkedArray
    Columns: TypeAlias = Mapping[str, Column] | pa.Table | pa.RecordBatch

REASONS_MAX = 3
"""How many bad rows an error names."""


def check_increment(fields: Mapping[str, object]) -> Event:
    """The increment as the pipeline would read it. Raises BadInputError with its reason.

    Beside what an event may have, `at` may be a datetime that knows its time zone.
    """
    at = fields.get("at")
    if isinstance(at, datetime):
        return check_event({**fields, "at": _milliseconds(at)})
    return check_event(dict(fields))


def check_columns(columns: Columns, now_ms: int, rows_max: int) -> list[pa.Table]:
    """Many increments as FRAME_SCHEMA, in pieces of at most so many rows.

    Where there is no `at`, it is `now_ms`. Raises BadInputError that names the first bad rows.
    """
    given = _as_table(columns)
    starts = range(0, given.num_rows, rows_max)
    typed = [_typed(given.slice(start, rows_max), now_ms) for start in starts]
    bad = [
        start + np.flatnonzero(bad_rows(piece)) for start, piece in zip(starts, typed, strict=True)
    ]
    if any(len(rows) for rows in bad):
        raise BadInputError(_why(given, np.concatenate(bad)))
    return typed


def _typed(given: pa.Table, now_ms: int) -> pa.Table:
    try:
        typed = typed_columns(given)
        typed.validate(full=True)
    except _ARROW_ERRORS as error:
        raise BadInputError(f"the columns cannot be read: {error}") from None
    at = pc.fill_null(typed["at"], now_ms)
    for name, column in (("delta", typed["delta"]), ("at", at)):
        given_or_ours = _own_copy(column) if name in given.column_names else column
        typed = typed.set_column(typed.schema.get_field_index(name), name, given_or_ours)
    return typed.combine_chunks()


def _own_copy(numbers: pa.ChunkedArray) -> pa.Array:
    """They may lie in memory of the caller's, who is free to change it later."""
    return pa.array(numbers.to_numpy().copy(), pa.int64())


def _as_table(columns: Columns) -> pa.Table:
    if isinstance(columns, pa.RecordBatch):
        columns = pa.table(columns)
    names = columns.column_names if isinstance(columns, pa.Table) else list(columns)
    unknown = [name for name in names if name not in FIELDS]
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise BadInputError(f"{twice[0]}: the column occurs twice")
    if unknown or "counter" not in names:
        wrong = f"{unknown[0]}: unknown column" if unknown else "counter: missing"
        raise BadInputError(f"{wrong}; the columns are {', '.join(FIELDS)}")
    if isinstance(columns, pa.Table):
        return columns
    try:
        return pa.table(dict(columns))
    except _ARROW_ERRORS as error:
        raise BadInputError(f"the columns cannot be read: {error}") from None


def _why(given: pa.Table, bad: NDArray[np.int64]) -> str:
    """What is wrong with the first of the bad rows, in the model's words."""
    reasons = []
    for row in bad[:REASONS_MAX].tolist():
        try:
            check_increment(_document(given, row))
        except BadInputError as error:
            reasons.append(f"row {row}: {error}")
        else:
            reasons.append(f"row {row}: refused by the fast check alone; please report it")
    more = f"; and {len(bad) - len(reasons)} more rows" if len(bad) > len(reasons) else ""
    return "; ".join(reasons) + more


def _document(given: pa.Table, row: int) -> dict[str, object]:
    try:
        return {name: given[name][row].as_py() for name in given.column_names}
    except (ValueError, OverflowError, KeyError):
        raise BadInputError("a value that Python cannot show, such as a year after 9999") from None


_ARROW_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _milliseconds(at: datetime) -> int:
    if at.utcoffset() is None:
        raise BadInputError("at: the datetime has no time zone; give it one, such as UTC")
    return (at - _EPOCH) // timedelta(milliseconds=1)
