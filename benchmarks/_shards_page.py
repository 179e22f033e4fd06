"""The figures as Markdown, and their place in docs/sharding.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks import _shards_cost as cost
from benchmarks import _shards_reads as reads
from benchmarks import _shards_spread as spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BEGIN = "<!-- measured: written by python -m benchmarks.shards --write -->"
END = "<!-- end of measured -->"


def spread_section(rows: int, found: Sequence[spread.Spread]) -> str:
    return f"""\
### Spread

Simulated with the choosers themselves: {rows:,} rows of one counter in {spread.MINUTES} minutes,
from {spread.PRODUCERS} producers that pack every {spread.LINGER_MS} ms, on {spread.PARTITIONS}
partitions. Members are {spread.MEMBERS:,} by Zipf's law with exponent 1, so the most active one
makes {spread.heaviest_share():.0%} of the rows. `busiest` is the share of the busiest partition
as a multiple of an even one, 1/n: in the whole run, and within a second, the mean of all seconds.
`cells` are how many of one region are opened in a minute, and how many change in a second, so that
a flush writes them. `to a slow one`: where one of the n partitions confirms only a
{_part(spread.SLOW)} of an even share, what it is sent, again as a multiple of an even share.

{spread_table(found)}"""


def spread_table(found: Iterable[spread.Spread]) -> str:
    return _table(
        ("n", "strategy", "busiest", "in a second", "cells/min", "cells/s", "to a slow one"),
        (
            (
                f"{one.shards}",
                "any" if one.shards == 1 else one.strategy,
                f"{one.busiest:.2f}",
                f"{one.busiest_in_a_second:.2f}",
                f"{one.cells_a_minute:.0f}",
                f"{one.cells_a_second:.1f}",
                "" if one.to_the_slow is None else f"{one.to_the_slow:.2f}",
            )
            for one in found
        ),
    )


def reads_section(cells: int, rounds: int, load_average: float, found: Sequence[reads.Read]) -> str:
    return f"""\
### What reading costs

The embedded ClickHouse over HTTP, with {cells:,} cells of other counters. A split counter has a day
of minutes in one region, each with cells of {reads.SLOTS} slots on every shard, rolled up and
merged. Every answer was checked: it does not depend on n. `ms` is the median of {rounds} rounds,
warm, in which the numbers of shards take turns, and `least` the quickest; `to n = 1` is the median
of the ratios within each round. `rows read` are whole granules of 8,192 rows. The machine's load
average was {load_average:.0f} on {os.cpu_count()} cores.

{reads_table(found)}"""


def reads_table(found: Iterable[reads.Read]) -> str:
    return _table(
        ("question", "n", "ms", "least", "to n = 1", "rows read"),
        (
            (
                one.question,
                f"{one.shards}",
                f"{one.ms:.1f}",
                f"{one.least_ms:.1f}",
                f"{one.ratio:.2f}",
                f"{one.rows_read:,}",
            )
            for one in found
        ),
    )


def cost_section(rounds: int, found: Sequence[cost.Cost]) -> str:
    return f"""\
### What choosing costs

Nanoseconds of the processor per row, n = {cost.SHARDS}, every row with a member; medians of
{rounds} rounds in which the strategies take turns.

{cost_table(found)}"""


def cost_table(found: Sequence[cost.Cost]) -> str:
    heads = [f"{rows:,} rows, {_counters(counters)}" for rows, counters in cost.BATCHES]
    by_strategy: dict[str, list[str]] = {}
    for one in found:
        by_strategy.setdefault(one.strategy, []).append(f"{one.ns_per_row:,.0f}")
    return _table(("strategy", *heads), ((name, *ns) for name, ns in by_strategy.items()))


def _counters(count: int) -> str:
    return "one counter" if count == 1 else f"{count:,} counters"


def _part(times: int) -> str:
    return {2: "half", 4: "quarter"}.get(times, f"{times}th")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
