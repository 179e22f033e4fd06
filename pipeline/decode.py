"""Records of one fetch to columns of increments: pure, no clock, the same answer for the same log.

Bad input never raises: it comes back as refused, with its place and a reason, and the rest counts.
Whether an event is too late or in the future is not decided here, since that needs log time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decode_json import read_json
from pipeline.errors import BadInputError
from pipeline.fetch_bounds import end_of_room
from pipeline.lanes import RETRY_HEADER, Lanes, Retry, sort_into_lanes
from pipeline.why_refused import Refused, why_refused
from schemas.checks import bad_rows, bad_times
from schemas.frame_weights import Weight, past_their_batch, weights_of
from schemas.frames import FRAME_SCHEMA, Frame, read_written, typed_frames
from schemas.records import Records

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
UNREADABLE_REASON = (
    "batch: its records cannot be read; it is damaged, of an old format, or too large when unpacked"
)
TOMBSTONE_REASON = "no value; a tombstone is no event"
# Below it, on average, joining chunks costs less than the fixed cost of each later step per chunk.
_ROWS_PER_CHUNK = 2048


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

    `retries` are the records that retry a dead letter, by their offset. `end` is the offset where
    it was too much for one piece; None if everything was read.
    """

    columns: pa.Table
    refused: list[Refused]
    control: list[Control]
    retries: dict[int, Retry]
    end: int | None = None

    def part(self, start: int, end: int) -> "Decoded":
        """What the offsets from `start` up to, not including, `end` hold."""
        offsets = self.columns["offset"].to_numpy()
        first, after = np.searchsorted(offsets, [start, end]).tolist()
        within = range(start, end)
        return Decoded(
            self.columns.slice(first, after - first),
            [one for one in self.refused if one.offset in within],
            [one for one in self.control if one.offset in within],
            {offset: retry for offset, retry in self.retries.items() if offset in within},
        )

    def encoded(self) -> "Decoded":
        """The same with counters and regions as dictionaries: each text is then looked at once."""
        columns = self.columns
        for name in ("counter", "region"):
            place = columns.column_names.index(name)
            # Before they are one: all texts together may be too long for an array.
            found = columns.column(name).dictionary_encode().combine_chunks()
            columns = columns.set_column(place, name, found)
        return replace(self, columns=columns)


def decode(records: Records, *, is_bounded: bool = False) -> Decoded:
    """Every record's increments, or why there are none. Never blocks; no input makes it raise.

    Records of a batch come together: whether a frame is too much for its batch takes all of them.
    If `is_bounded`, it may end before a batch that would be too much for one piece.
    """
    lanes = sort_into_lanes(records)
    written = _written(records, lanes)
    places = [index for index, _ in lanes.frames]
    if is_bounded and (end := end_of_room(records, places, written.weights)) is not None:
        fitting = records.cut(0, int(np.searchsorted(records.offsets, end)))
        return replace(decode(fitting), end=end)
    read = read_json(lanes.json_values)
    frames, refused = _read_frames(records, lanes, written.columns)
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
        of_frames = [frame for _, frame in frames.frames]
        refused += why_refused(columns, bad, lanes.json_values, read.reasons, of_frames)
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


class _Written(NamedTuple):
    """Frames as their producers wrote them, or why they are none, and what they grow to."""

    columns: list[pa.Table | BadInputError]
    weights: list[Weight | None]


def _written(records: Records, lanes: Lanes) -> _Written:
    """Every frame, of which nothing is converted yet: what grows too large never is."""
    columns = [read_written(value) for _, value in lanes.frames]
    weights = weights_of(columns)
    for number, reason in past_their_batch(weights, _batches(records, lanes)).items():
        columns[number], weights[number] = reason, None
    return _Written(columns, weights)


def _batches(records: Records, lanes: Lanes) -> Sequence[int]:
    """The number of each frame's batch; where that is not known, each is in one of its own."""
    if records.batch_offsets is None:
        return range(len(lanes.frames))
    offsets = records.offsets[[index for index, _ in lanes.frames]]
    found: list[int] = np.searchsorted(records.batch_offsets, offsets, "right").tolist()
    return found


def _read_frames(
    records: Records, lanes: Lanes, written: Sequence[pa.Table | BadInputError]
) -> tuple[_Frames, list[Refused]]:
    if not lanes.frames:
        return _Frames([], FRAME_SCHEMA.empty_table()), []
    found, columns = typed_frames(written)
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
