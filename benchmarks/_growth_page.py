"""How the cost of an event grows, as text: for the terminal, and for docs/benchmarks/growth.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks._growth_case import Row

BEGIN = "<!-- growth: written by python -m benchmarks.growth --write -->"
END = "<!-- end of growth -->"
MEGABYTE = 1e6
HEADS = (
    "events/s",
    "worker",
    "ClickHouse",
    "broker",
    "all",
    "x first",
    "x before",
    "cells",
    "memory MB",
    "load",
)


def tables(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """The rows by what grows and by form, in their order."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.axis, row.form), []).append(row)
    return found


def grown(rows: Sequence[Row]) -> float:
    """By how much the dearest event costs more than that of the first row."""
    return max(row.all_s for row in rows) / rows[0].all_s


def lines(rows: Sequence[Row]) -> Iterable[tuple[str, ...]]:
    """One table's cells, the size first."""
    for before, row in zip([rows[0], *rows], rows, strict=False):
        yield (
            f"{row.size:,}",
            f"{row.events_per_s:,.0f}",
            *(f"{s:.2f}" for s in (row.worker_s, row.clickhouse_s, row.broker_s, row.all_s)),
            f"{row.all_s / rows[0].all_s:.2f}",
            f"{row.all_s / before.all_s:.2f}",
            f"{row.cells:,}",
            f"{row.peak_bytes / MEGABYTE:,.0f}",
            f"{row.load_average:.1f}",
        )


def as_text(rows: Sequence[Row]) -> str:
    """Tables for a terminal."""
    found = []
    for (axis, form), group in tables(rows).items():
        found.append(f"\n{axis}, {form}; processors' seconds per million events")
        shown = [("", *HEADS), *lines(group)]
        found += ["  " + "".join(f"{cell:>12}" for cell in line) for line in shown]
    return "\n".join(found)


def measured(rows: Sequence[Row], cell_bytes: float, broker: str) -> str:
    """The same as Markdown."""
    parts = [
        f"""\
On {os.cpu_count()} cores, broker: {broker}. `worker`, `ClickHouse`, `broker` and `all` are
processors' seconds per million events; `x first` and `x before` compare `all` with the first row
and with the row before. `cells` are those of one minute each that the whole log has. `memory` is
the greatest resident size of all workers together, `load` the machine's load average at the end.

![What an event costs over events, counters, workers and partitions](growth.svg)"""
    ]
    for (axis, form), group in tables(rows).items():
        head = (axis.partition(",")[0], *HEADS)
        table = [head, ("---",) * len(head), *lines(group)]
        parts.append(f"### {_title(axis, form)}")
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in table))
    parts.append(
        f"### Memory of a live cell\n\n{cell_bytes:.0f} bytes, with a million of them; distinct "
        "members off, no sketches (`python -m benchmarks.core` measures the same)."
    )
    return "\n\n".join(parts)


def _title(axis: str, form: str) -> str:
    return f"{axis[0].upper()}{axis[1:]}, {form}"
