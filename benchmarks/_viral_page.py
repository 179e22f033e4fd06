"""The figures of a viral counter as text, and their place in docs/sharding.md."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._viral_load import Curve
    from benchmarks._viral_seconds import Findings, Second

BEGIN = "<!-- viral: written by python -m benchmarks.viral --write -->"
END = "<!-- end of viral -->"
EVERY_S = 5


class Figures(NamedTuple):
    """How it was measured."""

    curve: Curve
    rate_max: float
    cool_s: float
    partitions: int
    others_rate: float
    increments: int
    load_average: float


def over_time(found: Sequence[Second]) -> str:
    """Every few seconds, and every second in which the plan changed."""
    shards = [1, *(one.shards for one in found)]
    changed = [
        one for one, (before, now) in zip(found, pairwise(shards), strict=True) if before != now
    ]
    shown = [one for one in found if one.at_s % EVERY_S == 0 or one in changed]
    lines = [f"{'s':>5}{'rows/s':>9}{'shards':>8}{'busiest':>9}{'1/n':>8}{'of all rows':>13}"]
    lines += [
        f"{one.at_s:>5}{one.rows:>9,}{one.shards:>8}{one.share:>9.1%}{1 / one.shards:>8.1%}"
        f"{one.share_of_all:>13.1%}"
        for one in shown
    ]
    return "\n".join(lines)


def measured(how: Figures, found: Findings) -> str:
    """What came out, as Markdown."""
    curve, n = how.curve, found.most_shards
    rows = (
        (
            "from passing what one shard may have to the first split",
            f"{found.over_to_split_s:.1f} s",
        ),
        (f"from the beginning of the rise to {n} shards", f"{found.rise_to_most_s:.1f} s"),
        (
            "from the beginning of the fall until it is whole again",
            f"{found.fall_to_whole_s:.1f} s",
        ),
        ("busiest partition's share of the counter's rows, whole", f"{found.share_before:.1%}"),
        (f"the same with {n} shards", f"{found.share_split:.1%}; even is {1 / n:.1%}"),
        (
            "busiest partition's share of all rows, before the rise",
            f"{found.share_of_all_before:.1%}",
        ),
        ("the same in the busiest second of the rise", f"{found.share_of_all_most:.1%}"),
        (f"the same with {n} shards", f"{found.share_of_all_split:.1%}"),
        ("increments sent and counted", f"{how.increments:,}: every minute, every total"),
    )
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"""\
{how.partitions} partitions, two workers, two producers; {how.others_rate:,.0f} increments a second
of other counters. The load of one counter grows from {curve.low:,.0f} to {curve.high:,.0f} a second
within {curve.rise_s:.0f} s, stays there for {curve.high_s:.0f} s, and falls back within
{curve.fall_s:.0f} s. A shard may have {how.rate_max:,.0f} rows a second, and is cool after
{how.cool_s:.0f} s: far less than by default, so that two cores and two minutes are enough.

![Load, shards and the busiest partition's share over time](viral.svg)

| found | |
| --- | --- |
{table}

Shares are of the rows that the log got within a second, and the mean of the seconds unless it says
otherwise. The machine's load average was {how.load_average:.0f} on {os.cpu_count()} cores."""
