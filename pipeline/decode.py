"""Records of one fetch to columns of increments: pure, no clock, the same answer for the same log.

Bad input never raises: it comes back as refused, with its place and a reason, and the rest counts.
Whether an event is too late or in the future is not decided here, since that needs log time.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decode_json import read_json
from pipeline.errors import BadInputError
from pipeline.lanes import RETRY_HEADER, Lanes, Retry, sort_into_lanes
from schemas.checks import bad_rows, bad_times
from schemas.events import check_event, read_event
from schemas.frames import FRAME_SCHEMA, Frame, read_frames
from schemas.records import Records
from schemas.times import AT_MAX_MS, AT_MIN_MS

COLUMNS = pa.schema(
    [
        *FRAME_SCHEMA,
        pa.field("offset", pa.int64()),
        pa.field("row", pa.int32()),
        pa.field("log_ms", pa.int64()),
    ]
)
"""Of `Decoded.columns`. Only `member` and `id` hold nulls."""

RETRY_REASON = f"{RETRY_HEADER}: expected offset/row/timestamp_ms of the record that is retried"
UNREADABLE_REASON = "batch: its records cannot be read; it is damaged, or too large when unpacked"
TOMBSTONE_REASON = "no value; a tombstone is no event"
NO_TIME_REASON = "at: missing, and the log gives no time"
# Below it, on average, joining chunks costs less than the fixed cost of each later step per chunk.
_ROWS_PER_CHUNK = 2048
DISAGREEMENT_REASON = "refused by the fast decoder alone; please report this event"


@dataclass(frozen=True, slots=True)
class Refused:
    """A dead letter to be: a record, or one row of a frame, that is no event.

    `value` is the record's bytes; for a row of a frame it is that row as JSON. `is_frame` if it is
    a frame that cannot be read.
    """

    offset: int
    row: int
    reason: str
    value: bytes
    is_frame: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """A record that is no increment: rules, adjustments, heartbeats, by `tally-kind`."""

    offset: int
    timestamp_ms: int
    kind: str
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """What one fetch holds: each of the three in log order.

    `retries` are the records that retry a dead letter, by their offset.
    """

    columns: pa.Table
    refused: list[Refused]
    control: list[Control]
    retries: dict[int, Retry]

    def encoded(self) -> "Decoded":
        """The same with counters and regions as dictionaries: each text is then looked at once."""
        columns = self.columns
        for name in ("counter", "region"):
            place = columns.column_names.index(name)
            found = columns.column(name).combine_chunks().dictionary_encode()
            columns = columns.set_column(place, name, found)
        return replace(self, columns=columns)


def decode(records: Records) -> Decoded:
    """Every record's increments, or why there are none. Never blocks; no input makes it raise."""
    lanes = sort_into_lanes(records)
    read = read_json(lanes.json_values)
    frames, refused = _read_frames(records, lanes)
    for index in lanes.tombstones:
        refused.append(Refused(int(records.offsets[index]), 0, TOMBSTONE_REASON, b""))
    for index in lanes.bad_retries:
        value = records.values[index] or b""
        refused.append(Refused(int(records.offsets[index]), 0, RETRY_REASON, value))

    for index in lanes.unreadable:
        value = records.values[index] or b""
        refused.append(Refused(int(records.offsets[index]), 0, UNREADABLE_REASON, value))

    columns = _assemble(records, lanes, read.columns, frames)
    is_checked = read.are_checked and not frames.frames
    bad = bad_times(columns) if is_checked else bad_rows(columns)
    if bad.any():
        asker = _Asker(columns, lanes.json_values, read.reasons, frames.frames)
        refused += [asker.refused(int(place)) for place in np.flatnonzero(bad)]
        columns = columns.filter(pa.array(~bad))
    if len(lanes.json_values) and frames.frames:
        columns = columns.take(
            pc.sort_indices(columns, [("offset", "ascending"), ("row", "ascending")])
        )
    refused.sort(key=lambda one: (one.offset, one.row))
    retries = {int(records.offsets[index]): retry for index, retry in lanes.retries.items()}
    return Decoded(columns, refused, _controls(records, lanes), retries)


class _Frames(NamedTuple):
    """The frames of a fetch that could be read, with the place of each, and all of their rows."""

    frames: list[tuple[int, Frame]]
    columns: pa.Table


def _read_frames(records: Records, lanes: Lanes) -> tuple[_Frames, list[Refused]]:
    if not lanes.frames:
        return _Frames([], FRAME_SCHEMA.empty_table()), []
    found, columns = read_frames([value for _, value in lanes.frames])
    frames, refused = [], []
    for (index, value), one in zip(lanes.frames, found, strict=True):
        if isinstance(one, Frame):
            frames.append((index, one))
        else:
            place = int(records.offsets[index])
            refused.append(Refused(place, 0, str(one), value, is_frame=True))
    return _Frames(frames, columns), refused


def _assemble(records: Records, lanes: Lanes, json_columns: pa.Table, frames: _Frames) -> pa.Table:
    """All rows with their places: first those of JSON values, then those of each frame."""
    lengths = [frame.columns.num_rows for _, frame in frames.frames]
    frame_indexes = np.array([index for index, _ in frames.frames], np.int64)
    index = np.concatenate([lanes.json, np.repeat(frame_indexes, lengths)])
    rows = [np.zeros(len(lanes.json), np.int32)]
    rows += [np.arange(length, dtype=np.int32) for length in lengths]
    parts = [part for part in (json_columns, frames.columns) if part.num_rows]
    table = pa.concat_tables(parts or [json_columns])
    if table.num_rows < _ROWS_PER_CHUNK * table.column("counter").num_chunks:
        table = table.combine_chunks()
    log_ms = pa.array(records.timestamps_ms[index])
    at = table.column("at")
    if at.null_count:
        table = table.set_column(2, "at", pc.coalesce(at, _times(records, lanes)[index]))
    places = [pa.array(records.offsets[index]), pa.array(np.concatenate(rows)), log_ms]
    return pa.table([*table.columns, *places], schema=COLUMNS)


def _times(records: Records, lanes: Lanes) -> npt.NDArray[np.int64]:
    """When what a record holds happened, if it does not say: a retried one keeps its log time."""
    if not lanes.retries:
        return records.timestamps_ms
    times_ms = records.timestamps_ms.copy()
    for index, retry in lanes.retries.items():
        times_ms[index] = retry.timestamp_ms
    return times_ms


class _Asker:
    """Asks the model why a row is bad. Only bad rows come here, so it may take its time."""

    def __init__(
        self,
        columns: pa.Table,
        json_values: Sequence[bytes],
        json_reasons: dict[int, str],
        frames: list[tuple[int, Frame]],
    ) -> None:
        self._offsets = columns.column("offset")
        self._rows = columns.column("row")
        self._log_ms = columns.column("log_ms")
        self._json_values = json_values
        self._json_reasons = json_reasons
        self._frames = frames
        ends = np.cumsum([len(json_values), *(frame.columns.num_rows for _, frame in frames)])
        self._frame_starts: list[int] = ends[:-1].tolist()

    def refused(self, place: int) -> Refused:
        row: int = self._rows[place].as_py()
        if place < len(self._json_values):
            value = self._json_values[place]
            reason = self._json_reasons.get(place) or self._why(place, value)
        else:
            number = bisect_right(self._frame_starts, place) - 1
            document = self._frames[number][1].document(row)
            value = json.dumps(document, ensure_ascii=False).encode()
            reason = self._why(place, document)
        return Refused(self._offsets[place].as_py(), row, reason, value)

    def _why(self, place: int, written: bytes | dict[str, object]) -> str:
        try:
            event = read_event(written) if isinstance(written, bytes) else check_event(written)
        except BadInputError as error:
            return str(error)
        no_time = not AT_MIN_MS <= self._log_ms[place].as_py() <= AT_MAX_MS
        return NO_TIME_REASON if event.at is None and no_time else DISAGREEMENT_REASON


def _controls(records: Records, lanes: Lanes) -> list[Control]:
    return [
        Control(
            int(records.offsets[index]),
            int(records.timestamps_ms[index]),
            kind,
            records.keys[index],
            records.values[index],
        )
        for index, kind in lanes.control
    ]
