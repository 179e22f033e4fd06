"""The arithmetic of docs/scale.md as Markdown. Pure: the same inputs make the same text."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from benchmarks._pages import table
from benchmarks._scale_inputs import SENDINGS
from benchmarks._scale_model import BUCKETS, need
from benchmarks._scale_steps import steps
from schemas.rules import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks._scale_inputs import Inputs, Sending
    from benchmarks._scale_model import Need, Tier

BEGIN = "<!-- scale: written by python -m benchmarks.scale --write -->"
END = "<!-- end of scale -->"
RATES = tuple(10.0**power for power in range(3, 9))
EXAMPLE_RATE = 1e6
CELLS_MAX = Family().cells_max

TITLES: dict[Sending, str] = {
    "json": "JSON, one record for each increment, with members",
    "frames": "Frames by `increment_many`, with members, so none combined",
    "combined": "Frames by `increment_many`, without members, combined",
}


def section(inputs: Inputs) -> str:
    """Everything between the markers."""
    parts = [
        "### Step by step, for a million increments a second as JSON",
        steps(inputs, need(inputs, EXAMPLE_RATE, "json")),
    ]
    for sending in SENDINGS:
        needs = [need(inputs, rate, sending) for rate in RATES]
        parts += [
            f"### {TITLES[sending]}",
            machines_table(needs),
            "Cost per tier and month, in the unit of the assumed prices:",
            prices_table(needs),
        ]
    parts += [
        "### Cells or sketches",
        _sketches(inputs),
        "### Strict beside eventual",
        _strict(inputs),
        "### Measured inputs",
        _measured_table(inputs),
        "### Assumed inputs",
        _assumed_table(inputs),
    ]
    return "\n\n".join(parts)


def machines_table(needs: Iterable[Need]) -> str:
    """How many of everything."""
    heads = (
        "increments/s",
        "log MB/s",
        "partitions",
        "workers",
        "brokers",
        "cells/s flushed",
        "ClickHouse cores",
        "clusters",
        "web",
        "log TiB",
        "ClickHouse TiB",
        "producers' cores",
    )
    return table(
        heads,
        (
            (
                power(one.rate),
                figure(one.log_bytes / 1e6),
                f"{one.partitions:,}",
                f"{one.workers.machines:,}",
                f"{one.brokers.machines:,}",
                figure(one.cells_second),
                figure(one.clickhouse.cores),
                f"{one.clusters:,}",
                f"{one.web.machines:,}",
                figure(one.brokers.disk_tib),
                figure(one.clickhouse.disk_tib),
                figure(one.client_busy),
            )
            for one in needs
        ),
    )


def prices_table(needs: Sequence[Need]) -> str:
    """What each tier costs, and what a thousand million increments cost in the end."""
    heads = (
        "increments/s",
        "cores",
        "GiB",
        "TiB",
        "workers",
        "brokers",
        "ClickHouse",
        "web",
        "in all",
        "per 10^9 increments",
    )
    month_s = 30 * 86_400

    def total(one: Need, of: Callable[[Tier], float]) -> str:
        return figure(sum(map(of, one.tiers)))

    return table(
        heads,
        (
            (
                power(one.rate),
                total(one, lambda tier: tier.cores),
                total(one, lambda tier: tier.memory_gib),
                total(one, lambda tier: tier.disk_tib),
                *(figure(tier.price) for tier in one.tiers),
                figure(one.price),
                figure(one.price / (one.rate * month_s) * 1e9),
            )
            for one in needs
        ),
    )


def sketches_table(needs: Iterable[Need]) -> str:
    """What a shard has of cells, beside the rows that a sketch would have instead."""
    return table(
        (
            "increments/s",
            "sent as",
            "shards",
            "cells of a shard, region and second",
            "of a shard, region and minute",
            "of a shard and minute",
        ),
        (
            (
                power(one.rate),
                one.sending,
                f"{one.partitions:,}",
                figure(one.shard_cells_second),
                figure(one.shard_cells_minute / one.regions),
                figure(one.shard_cells_minute),
            )
            for one in needs
        ),
    )


def _sketches(inputs: Inputs) -> str:
    rates = [rate for rate in RATES if rate >= EXAMPLE_RATE]
    needs = [need(inputs, rate, sending) for sending in SENDINGS for rate in rates]
    return f"""\
A sketched family has at most {BUCKETS:,} rows for a shard, region and minute with the default
error, and all of them change every second where much is counted. So sketches write less than cells
where the first figure is above {BUCKETS:,}, and keep less where the second is. The third is bounded
by the family's `cells_max`, {CELLS_MAX:,} by default: what is beyond is sketched by itself, so add
partitions or raise it where that is not wanted.

{sketches_table(needs)}"""


def _strict(inputs: Inputs) -> str:
    share, pair = inputs.assumed.strict_share.value, inputs.measured.strict.value
    planned = inputs.assumed.utilisation.value
    decided = [(rate, rate * share) for rate in RATES]
    rows = ((power(rate), figure(n), f"{ceil(n / pair / planned):,}") for rate, n in decided)
    return f"""\
If {share:g} of the increments need a decision (`strict_share`), each pair of a worker and a web
process taking {pair:,.0f}/s (`strict`) at {planned:g}:

{table(("increments/s", "decisions/s", "pairs"), rows)}"""


def power(rate: float) -> str:
    """A power of ten as people write it; what is none, as a number."""
    digits = f"{rate:.0f}"
    return f"10^{len(digits) - 1}" if digits == "1" + "0" * (len(digits) - 1) else f"{rate:,.0f}"


def figure(value: float) -> str:
    """Three digits that count, or whole above a thousand: nothing here is known better."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.2g}") if value < 10 else float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def _measured_table(inputs: Inputs) -> str:
    found = inputs.measured
    return table(
        ("name", "value", "unit", "measured by", "on", ""),
        (
            (f"`{name}`", f"{one.value:g}", one.unit, f"`{one.command}`", f"{one.date}", one.note)
            for name in found.__struct_fields__
            for one in [getattr(found, name)]
        ),
    )


def _assumed_table(inputs: Inputs) -> str:
    given = inputs.assumed
    return table(
        ("name", "value", "unit", "why"),
        (
            (f"`{name}`", f"{one.value:g}", one.unit, one.why)
            for name in given.__struct_fields__
            for one in [getattr(given, name)]
        ),
    )
