"""Where it happened: a counter's value by region, and the regions of a family."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipeline.reads import live, spans
from pipeline.reads.sums import read_sums
from pipeline.reads.taking import total

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads

REGIONS_MAX = 200

_OF_FAMILY = (
    "SELECT toString(region) AS name, sum(p) AS amount FROM tally.cells_1m "  # noqa: S608 - constants
    f"WHERE {live.ALL} AND family = {{family:String}} "
    "AND window >= toDateTime({since_s:UInt32}, 'UTC') "
    f"GROUP BY name ORDER BY amount DESC, name LIMIT {REGIONS_MAX}"
)


@dataclass(frozen=True, slots=True)
class RegionCount:
    """What a region has of a counter, of all time; "" is where the region is not known."""

    region: str
    net: int

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return asdict(self)


def by_region(reads: Reads, counter: str) -> list[RegionCount]:
    """A counter's value by region, the greatest first; together they are its `net`.

    What has only sketches has no regions. Blocks; raises TryAgainError.
    """
    positions = reads.positions()
    sure_ms = spans.sure_since(reads.now_ms(), (position.log_ms for position in positions))
    plan = spans.plan(None, None, sure_ms)
    found = []
    for (_, region), sums in read_sums(reads, plan, [counter], key="counter, region").items():
        p, n, _ = sums.life or total(sums.taken.windows.values())
        found.append(RegionCount(str(region), p - n + sums.adjusted.of(None)[1]))
    return sorted(found, key=lambda one: (-one.net, one.region))[:REGIONS_MAX]


def of_family(reads: Reads, family: str, since_ms: int) -> list[str]:
    """The regions in which a family was counted since a moment, the busiest first.

    Blocks; raises TryAgainError.
    """
    rows = reads.rows(_OF_FAMILY, {"family": family, "since_s": max(0, since_ms) // 1000})
    return [str(region) for region, _ in rows]
