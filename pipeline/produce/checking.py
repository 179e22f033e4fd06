"""What of a chunk are events, by the pipeline's own decoder. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decode import decode
from pipeline.produce.reading import LINE_BYTES_MAX
from schemas.events import FIELDS
from schemas.records import Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.produce.reading import Chunk


class RefusedLine(NamedTuple):
    number: int
    reason: str


class Checked(NamedTuple):
    """The good lines of a chunk, what they say, and the others. Blank ones are neither."""

    lines: list[bytes]
    columns: pa.Table
    refused: list[RefusedLine]


def check(chunk: Chunk, now_ms: int, once: str | None) -> Checked:
    """Row i of the columns is what the decoder read in line i; `now_ms` where there is no `at`.

    With `once`, an event without an id gets one: this text and the byte its line begins at.
    """
    # Of such a line only the beginning is here, and what that says is not what the line says.
    too_long = {i for i, line in enumerate(chunk.lines) if len(line) > LINE_BYTES_MAX}
    lines = [line.strip() for line in chunk.lines]
    kept = np.array([i for i, line in enumerate(lines) if line and i not in too_long], int)
    offsets = chunk.offsets[kept]
    decoded = decode(_as_records([lines[i] for i in kept.tolist()], offsets, now_ms))
    found = decoded.columns["offset"].to_numpy()
    good = [lines[i] for i in np.searchsorted(chunk.offsets, found).tolist()]
    columns = decoded.columns.select(list(FIELDS))
    if once is not None:
        good, columns = _with_ids(good, columns, found, once)
    numbers = np.searchsorted(chunk.offsets, [bad.offset for bad in decoded.refused])
    refused = [
        RefusedLine(chunk.number + number, bad.reason)
        for number, bad in zip(numbers.tolist(), decoded.refused, strict=True)
    ]
    refused += [
        RefusedLine(chunk.number + i, f"longer than {LINE_BYTES_MAX} bytes") for i in too_long
    ]
    return Checked(good, columns, sorted(refused))


def _with_ids(
    lines: list[bytes],
    columns: pa.Table,
    offsets: NDArray[np.int64],
    once: str,
) -> tuple[list[bytes], pa.Table]:
    has_none = columns["id"].is_null()
    made = pc.binary_join_element_wise(once, pa.array(offsets).cast(pa.string()), ":")
    ids = pc.if_else(has_none, made, columns["id"])
    # Of a key that occurs twice the last one counts, so it goes to the end of the object.
    lines = [
        b'%s,"id":"%s"}' % (line[:-1], id_.encode()) if is_new else line
        for line, is_new, id_ in zip(lines, has_none.to_pylist(), ids.to_pylist(), strict=True)
    ]
    return lines, columns.set_column(columns.schema.get_field_index("id"), "id", ids)


def _as_records(lines: list[bytes], offsets: NDArray[np.int64], now_ms: int) -> Records:
    """Lines stand in for records and their bytes for offsets, so that the pipeline's own decoder
    says what is wrong with which line."""
    count = len(lines)
    return Records(
        partition=0,
        offsets=offsets,
        timestamps_ms=np.full(count, now_ms, np.int64),
        keys=[None] * count,
        values=list(lines),
        headers=[()] * count,
    )
