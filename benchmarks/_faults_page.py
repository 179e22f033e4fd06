"""What faults cost, as text for docs/reliability.md. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks._faults_kinds import FAULTS
from benchmarks._pages import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks._faults_cost import Cost

BEGIN = "<!-- faults: written by python -m benchmarks.faults --write -->"
END = "<!-- end of faults -->"
HEADS = (
    "fault",
    "counts stood still for",
    "increments waited",
    "reads without an answer",
    "all was well after",
)

COLUMNS = """\
Counts stood still for the longest time from an increment's call to its count in ClickHouse;
increments waited for the longest time to their acknowledgement. A total is read over HTTP ten times
a second, by a client that asks the other web process where the first one does not answer: a read is
without an answer if neither gave a number, or if the number says of itself that it is not complete.
All was well once everything ran, and nothing was behind any more."""


@dataclass(frozen=True, slots=True)
class Found:
    """All that a run has measured.

    `fell` says where a count was seen to be less than before, `left_out` by fault why it could not
    be done.
    """

    costs: list[Cost]
    rounds: int
    rate_per_s: float
    counters: int
    increments: int
    fell: Sequence[str]
    left_out: Mapping[str, str]


def page(found: Found, machine: str) -> str:
    """`machine` is a sentence about it."""
    rows = []
    for name, fault in FAULTS.items():
        if costs := [cost for cost in found.costs if cost.fault == name]:
            rows.append([fault.shown, *_row(costs)])
    rounds = "one round" if found.rounds == 1 else f"{found.rounds} rounds"
    most = "" if found.rounds == 1 else " Medians, and in brackets the most of all rounds."
    measured = (
        "Measured by `python -m benchmarks.faults`: two workers and two web processes with their "
        f"default settings, {found.rate_per_s:,.0f} increments a second, each fault alone, "
        f"{rounds}. What ends is started again at once. {machine}{most}"
    )
    exact = (
        f"After each round {found.counters} totals were what was acknowledged, to the unit: of "
        f"{found.increments:,} increments **none was lost and none counted twice**."
    )
    more = [f"Left out: {name}: {why}." for name, why in found.left_out.items()]
    if found.fell:
        more.append(f"**Counts were seen to fall once or more**, at first: {found.fell[0]}.")
    return "\n\n".join([measured, table(HEADS, rows), COLUMNS, exact, *more])


def _row(costs: Sequence[Cost]) -> list[str]:
    return [
        _times([cost.stood_still_s for cost in costs]),
        _times([cost.waited_s for cost in costs]),
        _reads(costs),
        _times([cost.well_after_s for cost in costs]),
    ]


def _times(each_s: Sequence[float]) -> str:
    median = f"{_seconds(statistics.median(each_s))} s"
    return median if len(each_s) == 1 else f"{median} ({_seconds(max(each_s))})"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _reads(costs: Sequence[Cost]) -> str:
    """Of all rounds together; the time is the longest of any."""
    failed, incomplete = (sum(each) for each in zip(*_counts(costs), strict=True))
    asked = sum(cost.reads for cost in costs)
    kinds = ((failed, "failed"), (incomplete, "not complete"))
    told = ", ".join(f"{count:,} {what}" for count, what in kinds if count)
    if not told:
        return f"none of {asked:,}"
    return f"{told} of {asked:,}; {_seconds(max(cost.unanswered_s for cost in costs))} s at most"


def _counts(costs: Sequence[Cost]) -> list[tuple[int, int]]:
    return [(cost.failed, cost.incomplete) for cost in costs]
