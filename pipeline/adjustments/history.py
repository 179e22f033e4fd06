# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""The adjustments of a counter or a family that hold, newest first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads

_COLUMNS = (
    "counter, toUnixTimestamp64Milli(at), who, why, `by`, before, after, toString(region), "
    "toString(grain), formatDateTime(window, '%Y-%m-%dT%H:%i:%SZ'), id"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One adjustment. `grain` and `window` are None for one of the total alone."""

    counter: str
    at: str
    who: str
    why: str
    by: int
    before: int | None
    after: int | None
    region: str
    grain: str | None
    window: str | None
    id: str

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return asdict(self)


def history(
    reads: Reads, name: str, *, family: bool = False, since_ms: int | None = None, limit: int
) -> list[Entry]:
    """The adjustments of a counter, or of all counters of a family, made since a moment.

    Blocks; raises TryAgainError.
    """
    rows = reads.rows(
        f"SELECT {_COLUMNS} FROM tally.history "
        f"WHERE {'family' if family else 'counter'} = {{name:String}} "
        "AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') "
        "ORDER BY at DESC, log_time DESC, shard, `offset` DESC LIMIT {limit:UInt32}",
        {"name": name, "since_ms": since_ms or 0, "limit": limit},
    )
    return [_entry(*row) for row in rows]


def _entry(counter: str, at_ms: int, *row: Any) -> Entry:
    who, why, by, before, after, region, grain, window, id_ = row
    return Entry(
        counter,
        rfc3339(at_ms),
        who,
        why,
        by,
        before,
        after,
        region,
        grain or None,
        window if grain else None,
        id_,
    )
