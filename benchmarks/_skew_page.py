"""The simulation of skew as Markdown, and its place in docs/scale.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import _skew as skew
from benchmarks import _skew_plan as plan
from benchmarks._pages import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks._skew import Skew, Way
    from pipeline.planning.planner import Thresholds

BEGIN = "<!-- skew: written by python -m benchmarks.skew --write -->"
END = "<!-- end of skew -->"
HEADS = (
    "exponent",
    "partitions",
    "1/n",
    "busiest, whole",
    "planned",
    "workers, even",
    "whole",
    "planned",
    "most rows/s, whole",
    "planned",
)


def section(worker_rate: float, thresholds: Thresholds, found: Sequence[Skew]) -> str:
    """All of it: how it was simulated, the plot and the table."""
    slowest_s = max(one.settled_s for one in found)
    return f"""\
Simulated with the program's own hash, planner, reports and plan, and the assignor of its workers:
{skew.COUNTERS:,} counters by Zipf's law and one more that has {skew.VIRAL_SHARE:.0%} of all rows
from one second to the next, {plan.PRODUCERS} producers, {plan.SECONDS} simulated seconds. A worker
bears {worker_rate:,.0f} rows/s (JSON, by [`worker_json`](#measured-inputs)); a counter is split
above {thresholds.rate_max:,.0f} rows/s a shard, the default. The last split came {slowest_s} s
after the viral counter at the latest, when the producers' next reports were there; that producers
then follow within a second or two is measured in [sharding](sharding.md#a-viral-counter), not here.

`busiest` is the busiest partition's share of all rows, with every counter whole and with the plan.
`workers` is how many bear a load that would need `even` of them if partitions were alike, a
{_part(skew.WORTH)} of the partitions' number; "none" where one partition alone has more than a
worker bears, so that no number is enough. `most rows/s` is the highest total rate before that
happens.

![The busiest partition's share by partitions, whole and planned](benchmarks/skew.svg)

{rows_table(found)}"""


def rows_table(found: Iterable[Skew]) -> str:
    return table(HEADS, map(row, found))


def row(one: Skew) -> tuple[str, ...]:
    """One line of the table."""
    return (
        f"{one.exponent:g}",
        f"{one.partitions}",
        f"{1 / one.partitions:.2%}",
        f"{one.whole.busiest:.2%}",
        f"{one.planned.busiest:.2%}",
        f"{one.even}",
        _workers(one.whole),
        _workers(one.planned),
        _millions(one.whole.rate_max),
        _millions(one.planned.rate_max),
    )


def _workers(way: Way) -> str:
    return "none" if way.workers is None else f"{way.workers}"


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.1f} million"


def _part(times: int) -> str:
    return {2: "half", 4: "quarter"}.get(times, f"{times}th")
