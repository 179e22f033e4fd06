"""What the log holds, decoded as workers decode it, for people who watch it go by.

Whether an event is late or double is not known here: that needs a shard's state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decode import Control, decode
from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from pipeline.why_refused import Refused
    from schemas.records import Records

SAMPLE_BYTES = 200
"""What is shown of a refused or a control record."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of the log to show. Choosing a family, counter or region leaves out what has none.

    `refused_only` leaves out events; `control` adds rules, heartbeats and the like.
    """

    family: str | None = None
    counter: str | None = None
    region: str | None = None
    refused_only: bool = False
    control: bool = False

    @property
    def chooses_events(self) -> bool:
        """Whether only certain events are wanted."""
        return not (self.family is None and self.counter is None and self.region is None)


def seen(records: Records, wanted: Wanted) -> list[dict[str, Any]]:
    """The wanted events, refused and control records as JSON documents, in log order. Pure."""
    decoded = decode(records)
    found: list[tuple[tuple[int, int], dict[str, Any]]] = []
    if not wanted.refused_only:
        rows = _chosen(decoded.columns, wanted).to_pylist()
        found += [((row["offset"], row["row"]), _event(records.partition, row)) for row in rows]
    if not wanted.chooses_events:
        times = dict(zip(records.offsets.tolist(), records.timestamps_ms.tolist(), strict=True))
        found += [
            ((bad.offset, bad.row), _refused(records.partition, bad, times[bad.offset]))
            for bad in decoded.refused
        ]
    if wanted.control:
        found += [((one.offset, 0), _control(records.partition, one)) for one in decoded.control]
    found.sort(key=lambda one: one[0])
    return [document for _, document in found]


def _chosen(columns: pa.Table, wanted: Wanted) -> pa.Table:
    """The rows that are asked for, found without a statement per row."""
    if wanted.counter is not None:
        columns = columns.filter(pc.equal(columns["counter"], wanted.counter))
    if wanted.family is not None:
        columns = columns.filter(pc.starts_with(columns["counter"], f"{wanted.family}:"))
    if wanted.region is not None:
        columns = columns.filter(pc.equal(columns["region"], wanted.region))
    return columns


def _event(partition: int, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "event",
        "place": f"{partition}/{row['offset']}/{row['row']}",
        "log_time": rfc3339(row["log_ms"]),
        "at": rfc3339(row["at"]),
        **{name: row[name] for name in ("counter", "delta", "region", "member", "id")},
    }


def _refused(partition: int, bad: Refused, log_ms: int) -> dict[str, Any]:
    return {
        "kind": "refused",
        "place": f"{partition}/{bad.offset}/{bad.row}",
        "log_time": rfc3339(log_ms),
        "reason": bad.reason,
        "bytes": len(bad.value),
        "sample": _sample(bad.value),
    }


def _control(partition: int, one: Control) -> dict[str, Any]:
    value = one.value or b""
    return {
        "kind": "control",
        "place": f"{partition}/{one.offset}/0",
        "log_time": rfc3339(one.timestamp_ms),
        "control": one.kind,
        "bytes": len(value),
        "sample": _sample(value),
    }


def _sample(value: bytes) -> str:
    return value[:SAMPLE_BYTES].decode(errors="replace")
