"""Frames: the bytes of a record whose content type is an Arrow stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from pipeline.decode import decode
from pipeline.errors import BadInputError
from pipeline.why_refused import DISAGREEMENT_REASON
from schemas.events import FIELDS, check_event
from schemas.frames import FRAME_CONTENT_TYPE
from schemas.records import Records

PROMISE = "a frame is refused whole with a reason, or each row is as the model in schemas/ reads it"

LOG_MS = 1_790_000_000_000
_PER_MS = {"s": 0.001, "ms": 1, "us": 1_000, "ns": 1_000_000}


def seeds() -> list[bytes]:
    counters = ["a:b", "é:c", "", "no family", None]
    texts = {
        "plain": pa.array(counters, pa.string()),
        "large": pa.array(counters, pa.large_string()),
        "view": pa.array([*counters[:-1], "long:" + "x" * 20], pa.string_view()),
        "dictionary": pa.array(counters, pa.string()).dictionary_encode(),
        "large dictionary": pa.array(counters, pa.large_string()).dictionary_encode(),
    }
    frames = [_frame({"counter": column}) for column in texts.values()]
    whole = {
        "delta": pa.array([1, 0, -5, 2**40, None], pa.int64()),
        "at": pa.array([None, 0, LOG_MS, -1, 2**62], pa.int64()),
        "member": pa.array(["ada", "", None, "é", "x"], pa.string()).dictionary_encode(),
        "region": pa.array(["eu", "*", None, "", "x" * 33], pa.string()),
        "id": pa.array(["1", "", None, "2", "x" * 129], pa.string()),
        "ignored": pa.array([[1], [], None, [2, 3], []], pa.list_(pa.int8())),
    }
    frames.append(_frame({"counter": texts["plain"], **whole}))
    times = pa.array([0, 1, -1, LOG_MS, None], pa.int64())
    kinds = (pa.timestamp("us", "UTC"), pa.timestamp("s", "Europe/Vienna"), pa.timestamp("ms"))
    frames += [_frame({"counter": texts["plain"], "at": times.cast(kind)}) for kind in kinds]
    moments = pa.array(["2026-11-16T04:06:36Z", "x", None, "2026-11-16t04:06:36+01:00", ""])
    frames.append(_frame({"counter": texts["plain"], "at": moments}))
    small = pa.array([1, 2, 3, 4, None], pa.int8())
    huge = pa.array([1, 2**63, 2**64 - 1, 0, None], pa.uint64())
    frames += [_frame({"counter": texts["plain"], "delta": one}) for one in (small, huge)]
    return frames


def _frame(columns: dict[str, pa.Array]) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def check(data: bytes) -> None:
    headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)
    one, time = np.zeros(1, np.int64), np.full(1, LOG_MS, np.int64)
    decoded = decode(Records(0, one, time, [None], [data], [headers]))
    decoded.columns.validate(full=True)
    assert not decoded.control
    if any(one.is_frame for one in decoded.refused):
        assert len(decoded.refused) == 1
        assert decoded.columns.num_rows == 0
        assert decoded.refused[0].reason
        return
    rows, refused = _as_the_model_reads(data)
    assert decoded.columns.to_pylist() == rows
    assert [(one.row, one.reason) for one in decoded.refused] == refused
    assert not any(one.reason == DISAGREEMENT_REASON for one in decoded.refused)


def _as_the_model_reads(data: bytes) -> tuple[list[dict[str, object]], list[tuple[int, str]]]:
    """Row by row, with pyarrow's own reader."""
    names = ipc.open_stream(pa.py_buffer(data)).schema.names
    places = [place for place, name in enumerate(names) if name in FIELDS]
    options = ipc.IpcReadOptions(included_fields=places)
    table = ipc.open_stream(pa.py_buffer(data), options=options).read_all()
    known = [name for name in FIELDS if name in table.column_names]
    columns = {name: _plain(table.column(name)) for name in known}
    rows: list[dict[str, object]] = []
    refused: list[tuple[int, str]] = []
    for row in range(table.num_rows):
        document = {name: columns[name][row] for name in known}
        try:
            event = check_event(document).model_dump()
        except BadInputError as error:
            refused.append((row, str(error)))
            continue
        event["at"] = LOG_MS if event["at"] is None else event["at"]
        rows.append({**event, "offset": 0, "row": row, "log_ms": LOG_MS})
    return rows, refused


def _plain(column: pa.ChunkedArray) -> list[object]:
    """Python's values; moments as whole milliseconds, the rest of one cut off below."""
    if not pa.types.is_timestamp(column.type):
        values: list[object] = column.to_pylist()
        return values
    per_ms, ticks = _PER_MS[column.type.unit], column.cast(pa.int64()).to_pylist()
    if per_ms < 1:
        return [None if tick is None else tick * 1000 for tick in ticks]
    return [None if tick is None else tick // int(per_ms) for tick in ticks]
