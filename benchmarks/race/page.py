"""What came out of a race, put into docs/benchmarks/race.md beside its plot and its figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks._pages import written
from benchmarks.race.contestants import ROOT
from benchmarks.race.figures import how_it_was_run, machine
from benchmarks.race.goals import reached
from benchmarks.race.plot import plot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.race.figures import Race

FOLDER = ROOT / "docs/benchmarks"
BEGIN = "<!-- race: written by python -m benchmarks.race --write -->"
END = "<!-- end of race -->"


def write(race: Race, skipped: Sequence[str], folder: Path = FOLDER) -> None:
    """Write plot and figures, and the page's measured part.

    Raises ValueError, before anything is written, for a page without markers.
    """
    page = folder / "race.md"
    text = written(page.read_text(), BEGIN, END, measured(race, skipped))
    page.write_text(text)
    (folder / "race.svg").write_text(plot(race))
    (folder / "race.json").write_text(json.dumps(race.document(), indent=2) + "\n")


def measured(race: Race, skipped: Sequence[str]) -> str:
    """How it was run, plot, table, goals and who was left out, as Markdown."""
    on = machine()
    cores = f"{on['processors']} cores ({on['model']}), {on['memory_gb']} GB, Python {on['python']}"
    paragraphs = [
        f"{how_it_was_run(race)}.\n{cores}. [race.json](race.json) has every round.",
        "![Events a second of each contestant](race.svg)",
        "\n".join(_table(race)),
        *(f"{line}." for line in skipped),
        "\n".join(_goals(race)),
    ]
    return "\n\n".join(paragraphs)


def _table(race: Race) -> list[str]:
    columns = (
        "",
        "events/s",
        "of the ceiling",
        "spread",
        "events",
        "CPU s per million: own",
        "store",
        "broker",
        "peak MB: own",
        "store",
    )
    return [
        f"| {' | '.join(columns)} |",
        f"|---|{'--:|' * (len(columns) - 1)}",
        *(
            f"| {one.name} | {one.per_s:,.0f} | {one.ratio:.3f} | {one.spread:.0%} "
            f"| {one.events:,} | {one.own_s:.2f} | {one.store_s:.2f} | {one.broker_s:.2f} "
            f"| {one.own_mb:,.0f} | {one.store_mb:,.0f} |"
            for one in sorted(race.figures, key=lambda one: -one.per_s)
        ),
    ]


def _goals(race: Race) -> list[str]:
    return [
        "| goal on two cores | wanted | measured | |",
        "|---|--:|--:|---|",
        *(
            f"| {goal.ours}, beside {goal.other} | {goal.least:g} x | {times:.3g} x "
            f"| {'reached' if times >= goal.least else 'missed'} |"
            for goal, times in reached(race)
        ),
    ]
