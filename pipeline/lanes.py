"""Which record of a fetch is what, by its headers: JSON, a frame, control, or a tombstone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pipeline.refused import WHOLE_RECORD
from schemas.blobs import Blobs
from schemas.frames import FRAME_CONTENT_TYPE
from schemas.records import Headers, Records
from schemas.times import AT_MAX_MS

KIND_HEADER = "tally-kind"
RETRY_HEADER = "tally-retry"
"""On a retried dead letter: the refused place and its log time, as `offset/row/timestamp_ms`."""

UNREADABLE_HEADER = "tally-unreadable"
"""On what stands for a batch that could not be read (pipeline/kept_batches.py)."""

INCREMENTS_KIND = "increments"
CONTENT_TYPE_HEADER = "content-type"

OWN_HEADERS = frozenset({KIND_HEADER, RETRY_HEADER, UNREADABLE_HEADER, CONTENT_TYPE_HEADER})
"""Those that Tally goes by; pipeline/native/records.py has them as well."""

_RETRY = re.compile(rb"([0-9]{1,18})/([0-9]{1,9})/([0-9]{1,15})")
_JSON = "json"
_FRAME = "frame"
_UNREADABLE = "unreadable"


class Retry(NamedTuple):
    """What a retried dead letter names: its place in the same partition, and its log time."""

    offset: int
    row: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Places of records in their fetch, each lane in log order; together they hold every record."""

    json: npt.NDArray[np.int64]
    json_values: Sequence[bytes]
    frames: list[tuple[int, bytes]] = field(default_factory=list)
    tombstones: list[int] = field(default_factory=list)
    control: list[tuple[int, str]] = field(default_factory=list)
    retries: dict[int, Retry] = field(default_factory=dict)
    bad_retries: list[int] = field(default_factory=list)
    """Records that retry something, but do not say what."""
    unreadable: list[int] = field(default_factory=list)
    """Batches whose records could not be read."""


def sort_into_lanes(records: Records) -> Lanes:
    """Every record in its lane. Never raises.

    A header that occurs twice counts with its last value, as in Kafka's own clients; a content type
    that is not known is taken for JSON.
    """
    marked, empty = records.marked(), _nulls(records.values)
    if not marked and not empty:
        whole = cast("Sequence[bytes]", records.values)
        return Lanes(np.arange(len(records)), whole)
    is_json = np.ones(len(records), np.bool_)
    is_json[empty] = is_json[marked] = False
    lanes = Lanes(np.zeros(0, np.int64), [])
    # Producers use few sets of headers, so each set is looked at once.
    lane_of: dict[Headers, tuple[str, str | None]] = {}
    for index in marked:
        headers = records.headers[index]
        if headers not in lane_of:
            lane_of[headers] = _lane(headers)
        is_json[index] = _sort(records, index, lane_of[headers], lanes)
    unmarked = set(empty).difference(marked)
    lanes.tombstones.extend(unmarked)
    lanes.tombstones.sort()
    json = np.flatnonzero(is_json)
    return replace(lanes, json=json, json_values=_taken(records.values, json))


def _sort(records: Records, index: int, found: tuple[str, str | None], lanes: Lanes) -> bool:
    """Put a record with headers into its lane; True if that is the one for JSON."""
    (lane, kind), value = found, records.values[index]
    if lane == _UNREADABLE:
        lanes.unreadable.append(index)
        return False
    last = dict(records.headers[index]) if kind is None else {}
    if RETRY_HEADER in last:
        retry = _retry(last[RETRY_HEADER])
        if retry is None:
            lanes.bad_retries.append(index)
            return False
        is_whole = lane == _FRAME and retry.row == 0
        lanes.retries[index] = retry._replace(row=WHOLE_RECORD) if is_whole else retry
    if kind is not None:
        lanes.control.append((index, kind))
    elif value is None:
        lanes.tombstones.append(index)
    elif lane == _FRAME:
        lanes.frames.append((index, value))
    else:
        return True
    return False


def _retry(written: bytes | None) -> Retry | None:
    """What the header says; None if it does not say a place and a time that an event may have.

    Without a value it says that this is a retry, but not of what.
    """
    match = _RETRY.fullmatch(written or b"")
    if match is None:
        return None
    retry = Retry(*map(int, match.groups()))
    return retry if retry.timestamp_ms <= AT_MAX_MS else None


def _nulls(values: Sequence[bytes | None]) -> list[int]:
    """Which values are None."""
    if isinstance(values, Blobs):
        found: list[int] = values.nulls().tolist()
        return found
    return [index for index, value in enumerate(values) if value is None]


def _taken(values: Sequence[bytes | None], which: npt.NDArray[np.int64]) -> Sequence[bytes]:
    """Some of the values, none of which is None."""
    if isinstance(values, Blobs):
        return cast("Sequence[bytes]", values.take(which))
    return [cast("bytes", values[index]) for index in which.tolist()]


def is_frame(headers: Headers) -> bool:
    """Whether a record with these headers is a frame of increments."""
    return _lane(headers) == (_FRAME, None)


def _lane(headers: Headers) -> tuple[str, str | None]:
    """The lane of an increments record, and the kind of any other."""
    last = dict(headers)
    if UNREADABLE_HEADER in last:
        return _UNREADABLE, None
    kind = (last.get(KIND_HEADER) or INCREMENTS_KIND.encode()).decode(errors="replace")
    content_type = (last.get(CONTENT_TYPE_HEADER) or b"").split(b";")[0].strip().lower()
    lane = _FRAME if content_type == FRAME_CONTENT_TYPE.encode() else _JSON
    return lane, None if kind == INCREMENTS_KIND else kind
