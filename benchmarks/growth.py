"""How the cost of an event grows: with events, counters, workers and partitions.

Run: python -m benchmarks.growth [--only AXIS] [--form JSON|frames] [--events N] [--quick] [--kafka]
     [--write] [--json FILE]

Each size is a log of its own, on servers of their own, counted by `tally worker` and compared with
the truth cell by cell. The README beside this file says what is measured. `--write` writes
docs/benchmarks/growth.json, growth.md and growth.svg; what `--only` and `--form` leave out stays
there as it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

from benchmarks import _growth_page as page
from benchmarks._growth_case import Case, Form, Row, measure
from benchmarks._growth_plot import plot
from benchmarks._kit import WrongAnswerError, write_json
from benchmarks._pages import written

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
LARGE = 10_000_000
CELLS = 1_000_000
SIZES: dict[str, tuple[int, ...]] = {
    "events": (100_000, 1_000_000, LARGE),
    "counters": (1_000, 10_000, 100_000, 1_000_000),
    "counters, all alike": (1_000, 10_000, 100_000, 1_000_000),
    "workers": (1, 2, 4),
    "partitions": (1, 4, 16, 64),
}
FORMS: dict[str, tuple[Form, ...]] = {"events": ("JSON", "frames"), "counters": ("JSON", "frames")}
"""Of the other axes JSON alone, unless another form is asked for."""

WORKERS_TIMES = 3
"""So many times the events where workers are many: the first begins without the others."""


def cases(axis: str, form: Form, events: int, *, quick: bool) -> list[Case]:
    """The cases of one table, the smallest first."""
    first = Case(axis, form, events, are_alike=axis.endswith("alike"))
    if axis == "workers":
        first = replace(first, events=WORKERS_TIMES * events)
    sizes = [size for size in SIZES[axis] if not (quick and size == LARGE)]
    return [sized(first, size) for size in sizes]


def sized(case: Case, size: int) -> Case:
    """The case with another size of what its axis is about."""
    changed: dict[str, Any] = {case.axis.partition(",")[0]: size}
    return replace(case, **changed)


def run(chosen: Sequence[Case], *, real_kafka: bool) -> list[Row]:
    """All of them, one after the other; each is told as it ends."""
    rows = []
    with TemporaryDirectory(prefix="tally-bench-") as parent:
        for number, case in enumerate(chosen):
            row = measure(case, Path(parent) / str(number), real_kafka=real_kafka)
            rows.append(row)
            print(
                f"{case.axis}, {case.form}: {case.size:,}: {row.events_per_s:,.0f} events/s, "
                f"{row.all_s:.2f} s per million (worker {row.worker_s:.2f}, ClickHouse "
                f"{row.clickhouse_s:.2f}, broker {row.broker_s:.2f}), load {row.load_average:.1f}",
                file=sys.stderr,
                flush=True,
            )
    return rows


def bytes_per_cell(cells: int) -> float:
    """Memory of a live cell, in a fresh process; as benchmarks.core measures it."""
    command = [sys.executable, "-m", "benchmarks._cells", "tally", str(cells)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=300)
    found: float = json.loads(done.stdout)["bytes"]
    return found


def write(rows: Sequence[Row], cell_bytes: float, broker: str) -> None:
    """The page, the plot and the figures. Tables that were not measured now stay as they were."""
    path = DOCS / "growth.json"
    all_rows = merged(_rows_of(path), rows)
    write_json(path, "growth", document(all_rows, cell_bytes, broker))
    (DOCS / "growth.svg").write_text(plot(all_rows))
    path = DOCS / "growth.md"
    text = page.measured(all_rows, cell_bytes, broker)
    path.write_text(written(path.read_text(), page.BEGIN, page.END, text))


def merged(before: Sequence[Row], now: Sequence[Row]) -> list[Row]:
    """The rows of now, with those of tables that are not among them; in the order of tables."""
    measured = page.tables(now)
    kept = [row for row in before if (row.axis, row.form) not in measured]
    order = [(axis, form) for axis in SIZES for form in get_args(Form)]
    return sorted([*kept, *now], key=lambda row: order.index((row.axis, row.form)))


def document(rows: Sequence[Row], cell_bytes: float, broker: str) -> dict[str, Any]:
    """The figures for a machine to read."""
    return {"broker": broker, "bytes_per_cell": cell_bytes, "rows": [asdict(row) for row in rows]}


def _rows_of(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [Row(**row) for row in json.loads(path.read_text())["rows"]]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", choices=SIZES, action="append", help="one axis")
    options.add_argument("--form", choices=get_args(Form), action="append", help="one form")
    options.add_argument("--events", type=int, default=1_000_000, help="default 1000000")
    options.add_argument("--quick", action="store_true", help="without the largest logs")
    options.add_argument("--kafka", action="store_true", help="a real Kafka, not the embedded log")
    options.add_argument("--write", action="store_true", help="write docs/benchmarks/growth.*")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = options.parse_args()
    chosen = [
        case
        for axis in given.only or SIZES
        for form in given.form or FORMS.get(axis, ("JSON",))
        for case in cases(axis, form, given.events, quick=given.quick)
    ]
    try:
        rows = run(chosen, real_kafka=given.kafka)
    except WrongAnswerError as error:
        sys.exit(f"growth: {error}")
    cell_bytes = bytes_per_cell(CELLS)
    broker = "Apache Kafka" if given.kafka else "the embedded log"
    print(page.as_text(rows))
    print(f"\nmemory of a live cell, of {CELLS:,}: {cell_bytes:.0f} bytes")
    if given.write:
        write(rows, cell_bytes, broker)
    write_json(given.json, "growth", document(rows, cell_bytes, broker))


if __name__ == "__main__":
    main()
