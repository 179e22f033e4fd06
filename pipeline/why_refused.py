"""Why rows are no events: the model is asked, which only bad rows have to wait for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import BadInputError
from schemas.events import check_event, read_event
from schemas.times import AT_MAX_MS, AT_MIN_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from schemas.frames import Frame

NO_TIME_REASON = "at: missing, and the log gives no time"
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


def why_refused(
    columns: pa.Table,
    bad: NDArray[np.bool_],
    json_values: Sequence[bytes],
    json_reasons: Mapping[int, str],
    frames: Sequence[Frame],
) -> list[Refused]:
    """The bad rows of `columns`, which are those of JSON values and then those of each frame.

    `json_reasons` are already known, by their row.
    """
    places = np.flatnonzero(bad)
    offsets, rows, log_ms = (
        columns[name].to_numpy()[places].tolist() for name in ("offset", "row", "log_ms")
    )
    ends = np.cumsum([len(json_values), *(frame.columns.num_rows for frame in frames)])
    cuts = np.searchsorted(places, ends).tolist()
    asked = _Asked()
    refused = []
    for number, place in enumerate(places[: cuts[0]].tolist()):
        value = json_values[place]
        reason = json_reasons.get(place) or asked.why(value, value, log_ms[number])
        refused.append(Refused(offsets[number], 0, reason, value))
    for frame, first, end in zip(frames, cuts[:-1], cuts[1:], strict=True):
        documents = _quoted(frame, rows[first:end])
        for number, (document, value) in enumerate(documents, first):
            reason = asked.why(document, value, log_ms[number])
            refused.append(Refused(offsets[number], rows[number], reason, value))
    return refused


def _quoted(frame: Frame, rows: Sequence[int]) -> Iterator[tuple[dict[str, object], bytes]]:
    """Rows of a frame as documents, and those as JSON."""
    for document in frame.documents(rows) if rows else ():
        yield document, json.dumps(document, ensure_ascii=False).encode()


class _Asked:
    """Asks the model about each text once: a producer that errs does so again and again."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bool], str] = {}

    def why(self, written: bytes | dict[str, object], value: bytes, log_ms: int) -> str:
        has_time = AT_MIN_MS <= log_ms <= AT_MAX_MS
        reason = self._known.get((value, has_time))
        if reason is None:
            reason = self._known[value, has_time] = _why(written, has_time=has_time)
        return reason


def _why(written: bytes | dict[str, object], *, has_time: bool) -> str:
    try:
        event = read_event(written) if isinstance(written, bytes) else check_event(written)
    except BadInputError as error:
        return str(error)
    return NO_TIME_REASON if event.at is None and not has_time else DISAGREEMENT_REASON
