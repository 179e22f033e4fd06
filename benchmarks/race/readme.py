"""The race's figures in README.md, out of docs/benchmarks/race.json.

Run: python -m benchmarks.race.readme        after race.json was renewed by other means than --write
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks._pages import table, written
from benchmarks.race.contestants import ROOT

if TYPE_CHECKING:
    from pathlib import Path

README = ROOT / "README.md"
FIGURES = ROOT / "docs/benchmarks/race.json"
BEGIN = (
    "<!-- race: written by python -m benchmarks.race --write, "
    "or by python -m benchmarks.race.readme from docs/benchmarks/race.json -->"
)
END = "<!-- end of race -->"
SHOWN = (
    "Tally, frames",
    "Tally, JSON",
    "ClickHouse alone, Kafka",
    "confluent-kafka + dict",
    "Redis INCR",
    "Kafka Streams",
    "Bytewax",
    "Quix Streams",
    "Faust, Table",
)


def measured(race: dict[str, Any]) -> str:
    """What the README says of a race, as Markdown; who did not take part is left out."""
    on, load = race["machine"], race["load_average"]
    contestants = race["contestants"]
    rows = [
        [
            name,
            f"{one['events_per_s']:,}",
            f"{sum(one['cpu_s_per_million'].values()):.1f}",
            one["stores"],
        ]
        for name in SHOWN
        if (one := contestants.get(name)) is not None
    ]
    heads = ["", "events/s", "CPU s per million", "stores"]
    return (
        f"`make bench`: {race['events']:,} events of {race['bytes_per_event']:.0f} bytes counted "
        f"by counter and minute out of {race['broker']},\n"
        f"each answer checked, on {on['processors']} cores that everything shares "
        f"(load average {load['before']:.1f} before, {load['after']:.1f} after).\n"
        "Tally has everything on: regions, members, trends, checkpoints, ClickHouse. "
        "[The race](docs/benchmarks/race.md) has how,\n"
        "which goals were reached and missed, and who is quicker.\n\n" + table(heads, rows)
    )


def write_readme(page: Path = README, figures: Path = FIGURES) -> None:
    """Renew the page. Raises ValueError for one without markers."""
    text = measured(json.loads(figures.read_text()))
    page.write_text(written(page.read_text(), BEGIN, END, text))


if __name__ == "__main__":
    write_readme()
