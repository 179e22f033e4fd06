"""What the demo's picture asks of ClickHouse, with the views that anybody can ask."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads

LAST_MS = 300_000
TOP = 5
TRENDS = 3

_TOP = (
    "SELECT family, counter, sum(count) AS count FROM tally.counts_1m "
    "WHERE window >= {since:DateTime} GROUP BY family, counter "
    "ORDER BY count DESC, counter LIMIT {limit:UInt32} BY family"
)
_REGIONS = (
    "SELECT region, sum(count) AS count FROM tally.counts_by_region_1m "
    "WHERE window >= {since:DateTime} GROUP BY region ORDER BY count DESC"
)
_TRENDING = (
    "SELECT counter, observed, expected, kind FROM tally.trending "
    "WHERE family = 'hashtag' AND region = '*' AND kind != 'top' ORDER BY rank LIMIT {limit:UInt32}"
)


@dataclass(frozen=True, slots=True)
class Trend:
    """A counter that has clearly more than is expected of it."""

    counter: str
    observed: int
    expected: float
    kind: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What ClickHouse had at one moment; counts are of the last LAST_MS."""

    flushed_at_ms: int | None
    top: dict[str, list[tuple[str, int]]]
    regions: list[tuple[str, int]]
    trends: list[Trend]


def look(reads: Reads) -> Seen:
    """Ask for all of it. Blocks; raises TryAgainError."""
    since = datetime.fromtimestamp((reads.now_ms() - LAST_MS) / 1000, UTC)
    top: dict[str, list[tuple[str, int]]] = {}
    for family, counter, count in reads.rows(_TOP, {"since": since, "limit": TOP}):
        top.setdefault(str(family), []).append((str(counter), int(count)))
    flushed = [shard.flushed_at_ms for shard in reads.positions()]
    return Seen(
        flushed_at_ms=max(flushed, default=None),
        top=top,
        regions=[(str(name), int(n)) for name, n in reads.rows(_REGIONS, {"since": since})],
        trends=[
            Trend(str(counter), int(observed), float(expected), str(kind))
            for counter, observed, expected, kind in reads.rows(_TRENDING, {"limit": TRENDS})
        ],
    )
