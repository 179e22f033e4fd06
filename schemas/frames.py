"""The frame: many events as one Arrow IPC stream, with the columns an event has fields for."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from pipeline.errors import BadInputError
from schemas.events import DELTA_DEFAULT, FIELDS, REGION_DEFAULT
from schemas.frame_columns import as_at, as_delta, as_text, surely_valid
from schemas.frame_limits import MAX_FRAME_BYTES, MAX_FRAME_ROWS, check_limits
from schemas.frame_quotes import QUOTED_TEXT_MAX, as_quoted

FRAME_CONTENT_TYPE = "application/vnd.apache.arrow.stream"

FRAME_SCHEMA = pa.schema(
    [
        pa.field("counter", pa.string()),
        pa.field("delta", pa.int64()),
        pa.field("at", pa.int64()),
        pa.field("member", pa.string()),
        pa.field("region", pa.string()),
        pa.field("id", pa.string()),
    ]
)
"""As `encode_frame` writes a frame and `read_frame` gives it; a null stands for the default."""

_ROWS_AT_ONCE = 1024
"""Of documents: a frame's texts may be long, of which a document quotes little."""

_CONVERSION_ERRORS = (pa.ArrowException, ValueError)
"""Beside Arrow's own: a time zone that is no text, buffers that are no multiple of their items."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A frame that could be read. Its rows are typed, not yet checked against the event's limits.

    `columns` has FRAME_SCHEMA; `delta` and `region` have their defaults filled in, a null `at` is
    left for the log's time. `written` holds the known columns as the producer wrote them.
    """

    columns: pa.Table
    written: pa.Table

    def document(self, row: int) -> dict[str, object]:
        """One row as an event's JSON document, as it was written; overlong text is cut short."""
        return next(self.documents([row]))

    def documents(self, rows: Sequence[int]) -> Iterator[dict[str, object]]:
        """Some rows as documents. What is converted, is once for all of them."""
        names = self.written.column_names
        columns = [as_quoted(self.written.column(name)) for name in names]
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            chosen = pa.array(rows[first : first + _ROWS_AT_ONCE], pa.int64())
            taken = [column.take(chosen).to_pylist() for column in columns]
            for values in zip(*taken, strict=True):
                yield {
                    name: value[:QUOTED_TEXT_MAX] if isinstance(value, str) else value
                    for name, value in zip(names, values, strict=True)
                    if value is not None
                }


def encode_frame(columns: Mapping[str, Sequence[object] | pa.Array]) -> bytes:
    """One frame of equally long columns, by field; columns that are all default may be left out.

    Raises BadInputError for an unknown, missing or mistyped column and for a frame that is too
    large; the limits of single events are the reader's to check.
    """
    unknown = [name for name in columns if name not in FIELDS]
    if unknown or "counter" not in columns:
        raise BadInputError(
            f"frame: {unknown[0]}: unknown column" if unknown else "frame: counter: missing"
        )
    fields = [FRAME_SCHEMA.field(name) for name in FIELDS if name in columns]
    try:
        arrays = [pa.array(columns[field.name], field.type) for field in fields]
        batch = pa.record_batch(arrays, schema=pa.schema(fields))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise BadInputError(f"frame: {error}") from None
    if batch.num_rows > MAX_FRAME_ROWS:
        raise BadInputError(f"frame: more than {MAX_FRAME_ROWS} rows")
    data = frame_bytes(batch)
    if len(data) > MAX_FRAME_BYTES:
        raise BadInputError(f"frame: more than {MAX_FRAME_BYTES} bytes")
    return data


def frame_bytes(batch: pa.RecordBatch) -> bytes:
    """Columns as the bytes of a frame. Whether they make one is the caller's to know."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_frame(data: bytes) -> Frame:
    """The rows of one frame. Raises BadInputError, with a reason, when it cannot be read as one.

    Columns that are not fields of an event are neither read nor checked. The answer may share
    memory with `data`.
    """
    return _frame(_read_known_columns(data))


def read_frames(values: Sequence[bytes]) -> tuple[list[Frame | BadInputError], pa.Table]:
    """`read_frame` of each, or why it cannot be read, and the rows of all in one table."""
    return typed_frames([read_written(value) for value in values])


def read_written(data: bytes) -> pa.Table | BadInputError:
    """The known columns of one frame as the producer wrote them, or why it cannot be read.

    Takes no memory to speak of beside `data`, however much the columns say in few bytes.
    """
    try:
        return _read_known_columns(data)
    except BadInputError as error:
        return error


def typed_frames(
    written: Sequence[pa.Table | BadInputError],
) -> tuple[list[Frame | BadInputError], pa.Table]:
    """The frames of columns that were written, or why they are none; all of their rows together.

    Frames that are alike, as those of one producer are, are converted together: that costs as
    much as for one of them.
    """
    tables = [one for one in written if isinstance(one, pa.Table)]
    if len(tables) < len(written):
        return _typed_one_by_one(written)
    try:
        joined = pa.concat_tables(tables, promote_options="default").combine_chunks()
        columns = typed_columns(joined)
    except (BadInputError, *_CONVERSION_ERRORS):
        # One of them is bad, or they are not alike.
        return _typed_one_by_one(written)
    starts = accumulate((table.num_rows for table in tables), initial=0)
    return [
        Frame(columns.slice(start, table.num_rows), table)
        for start, table in zip(starts, tables, strict=False)
    ], columns


def _typed_one_by_one(
    written: Sequence[pa.Table | BadInputError],
) -> tuple[list[Frame | BadInputError], pa.Table]:
    frames = [_frame_or_reason(one) for one in written]
    readable = [frame.columns for frame in frames if isinstance(frame, Frame)]
    return frames, pa.concat_tables([FRAME_SCHEMA.empty_table(), *readable])


def _frame_or_reason(written: pa.Table | BadInputError) -> Frame | BadInputError:
    if isinstance(written, BadInputError):
        return written
    try:
        return _frame(written)
    except BadInputError as error:
        return error


def _frame(written: pa.Table) -> Frame:
    """Raises BadInputError."""
    try:
        return Frame(typed_columns(written), written)
    except _CONVERSION_ERRORS:
        raise BadInputError("frame: its columns cannot be converted") from None


def typed_columns(written: pa.Table) -> pa.Table:
    """Columns of an event's fields brought to FRAME_SCHEMA; those left out are the default.

    `at` may hold nulls, for whoever knows the time. Raises BadInputError for a column of a wrong
    type, and pyarrow's errors for what it cannot convert.
    """
    rows = written.num_rows
    arrays = []
    for field in FRAME_SCHEMA:
        if field.name not in written.column_names:
            arrays.append(_default(field, rows))
        elif field.name == "delta":
            arrays.append(_filled(as_delta(written.column("delta")), DELTA_DEFAULT))
        elif field.name == "at":
            arrays.append(as_at(written.column("at")))
        else:
            arrays.append(_text(field.name, written.column(field.name)))
    return pa.table(arrays, schema=FRAME_SCHEMA)


def _read_known_columns(data: bytes) -> pa.Table:
    """Raises BadInputError."""
    try:
        check_limits(data)
        return _known_columns(data)
    except (pa.ArrowException, OSError, ValueError, KeyError, struct.error):
        raise BadInputError("frame: not an Arrow IPC stream") from None


def _known_columns(data: bytes) -> pa.Table:
    reader = ipc.open_stream(pa.py_buffer(data))
    names = reader.schema.names
    known = [index for index, name in enumerate(names) if name in FIELDS]
    twice = {names[index] for index in known if names.count(names[index]) > 1}
    if twice:
        raise BadInputError(f"frame: {min(twice)}: the column occurs twice")
    if "counter" not in names:
        raise BadInputError("frame: counter: the column is missing")
    if len(known) < len(names):
        options = ipc.IpcReadOptions(included_fields=known)
        reader = ipc.open_stream(pa.py_buffer(data), options=options)
    table = reader.read_all()
    table.validate()
    if not all(surely_valid(chunk) for column in table.columns for chunk in column.chunks):
        table.validate(full=True)
    return table


def _text(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    text = column.cast(pa.string()) if pa.types.is_null(column.type) else as_text(name, column)
    return _filled(text, REGION_DEFAULT) if name == "region" else text


def _filled(column: pa.ChunkedArray, default: object) -> pa.ChunkedArray:
    return pc.fill_null(column, default) if column.null_count else column


def _default(field: pa.Field, rows: int) -> pa.Array:
    if rows > _KEPT_ROWS:
        return _constant(field.name, rows)
    return _kept_constant(field.name, 1 << rows.bit_length()).slice(0, rows)


def _constant(name: str, rows: int) -> pa.Array:
    """A column of nothing but its field's default."""
    if name == "delta":
        return pa.repeat(pa.scalar(DELTA_DEFAULT, pa.int64()), rows)
    if name == "region":
        return pa.repeat(pa.scalar(REGION_DEFAULT, pa.string()), rows)
    return pa.nulls(rows, FRAME_SCHEMA.field(name).type)


_KEPT_ROWS = 1 << 18
"""Up to so many rows, columns of defaults are kept: to make them costs as much as to read others.
There are few lengths, all powers of two, so that all of them together are a few MiB."""

_kept_constant = cache(_constant)
