"""Which record of a fetch is what, by its headers: JSON, a frame, control, or a tombstone."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.refused import WHOLE_RECORD
from schemas.frames import FRAME_CONTENT_TYPE
from schemas.records import Headers, Records

KIND_HEADER = "tally-kind"
RETRY_HEADER = "tally-retry"
"""On a retried dead letter: the refused place and its log time, as `offset/row/timestamp_ms`."""

INCREMENTS_KIND = "increments"
CONTENT_TYPE_HEADER = "content-type"

_RETRY = re.compile(rb"([0-9]{1,18})/([0-9]{1,9})/([0-9]{1,15})")
_JSON = "json"
_FRAME = "frame"


class Retry(NamedTuple):
    """What a retried dead letter names: its place in the same partition, and its log time."""

    offset: int
    row: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Places of records in their fetch, each lane in log order; together they hold every record."""

    json: npt.NDArray[np.int64]
    json_values: list[bytes]
    frames: list[tuple[int, bytes]] = field(default_factory=list)
    tombstones: list[int] = field(default_factory=list)
    control: list[tuple[int, str]] = field(default_factory=list)
    retries: dict[int, Retry] = field(default_factory=dict)
    bad_retries: list[int] = field(default_factory=list)
    """Records that retry something, but do not say what."""


def sort_into_lanes(records: Records) -> Lanes:
    """Every record in its lane. Never raises.

    A header that occurs twice counts with its last value, as in Kafka's own clients; a content type
    that is not known is taken for JSON.
    """
    values = records.values
    if not any(records.headers) and None not in values:
        json_only: list[bytes] = values  # type: ignore[assignment]  # None was looked for above
        return Lanes(np.arange(len(values)), json_only)
    # Producers use few sets of headers, so each set is looked at once.
    lane_of = {headers: _lane(headers) for headers in set(records.headers)}
    json_indexes: list[int] = []
    lanes = Lanes(np.zeros(0, np.int64), [])
    for index, (headers, value) in enumerate(zip(records.headers, values, strict=True)):
        lane, kind = lane_of[headers]
        last = dict(headers) if kind is None and headers else {}
        if RETRY_HEADER in last:
            # A header without a value says that this is a retry, but not of what.
            if (match := _RETRY.fullmatch(last[RETRY_HEADER] or b"")) is None:
                lanes.bad_retries.append(index)
                continue
            offset, row, timestamp_ms = map(int, match.groups())
            whole = lane == _FRAME and row == 0
            lanes.retries[index] = Retry(offset, WHOLE_RECORD if whole else row, timestamp_ms)
        if kind is not None:
            lanes.control.append((index, kind))
        elif value is None:
            lanes.tombstones.append(index)
        elif lane == _FRAME:
            lanes.frames.append((index, value))
        else:
            json_indexes.append(index)
            lanes.json_values.append(value)
    return Lanes(
        np.array(json_indexes, np.int64),
        lanes.json_values,
        lanes.frames,
        lanes.tombstones,
        lanes.control,
        lanes.retries,
        lanes.bad_retries,
    )


def is_frame(headers: Headers) -> bool:
    """Whether a record with these headers is a frame of increments."""
    return _lane(headers) == (_FRAME, None)


def _lane(headers: Headers) -> tuple[str, str | None]:
    """The lane of an increments record, and the kind of any other."""
    last = dict(headers)
    kind = (last.get(KIND_HEADER) or INCREMENTS_KIND.encode()).decode(errors="replace")
    content_type = (last.get(CONTENT_TYPE_HEADER) or b"").split(b";")[0].strip().lower()
    lane = _FRAME if content_type == FRAME_CONTENT_TYPE.encode() else _JSON
    return lane, None if kind == INCREMENTS_KIND else kind
