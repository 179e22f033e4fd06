"""How right the sketches are beside what they promise, over many seeds.

Run: python -m benchmarks.accuracy [--seeds N] [--jobs N] [--write] [--json FILE]

Distinct counts of one to ten million members; counts by key, the heaviest keys, and the heaviest
counters of an hour as the pipeline finds them, for keys by Zipf's law with exponents of 0.8 to 1.5.
The same seeds give the same figures. Exits with 1 if a promise is not kept. `--write` writes
docs/sketches/accuracy.md and accuracy.svg.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks import _accuracy_hour as hour
from benchmarks import _accuracy_keys as keys
from benchmarks import _accuracy_tables as tables
from benchmarks._accuracy_distinct import measure_distinct
from benchmarks._accuracy_page import page
from benchmarks._accuracy_plot import plot
from benchmarks._kit import write_json

DOCS = Path(__file__).parents[1] / "docs" / "sketches"


def measure(seed: int) -> tables.Trials:
    """Everything with one seed: about 20 s of one core, and 300 MB."""
    found = tables.Trials(measure_distinct(seed), [], [], [])
    for exponent in keys.EXPONENTS:
        stream = keys.Stream(seed, exponent, keys.EVENTS)
        found.frequency.extend(keys.measure_frequency(stream, error) for error in keys.ERRORS)
        found.heavy.extend(keys.measure_heavy(stream, one) for one in keys.CAPACITIES)
        found.hour.extend(hour.measure_hour(keys.Stream(seed, exponent, hour.EVENTS)))
    return found


def measure_all(seeds: int, jobs: int) -> tables.Trials:
    """Seeds 1 to `seeds`, some at a time; the order does not matter to the figures."""
    found = []
    with ProcessPoolExecutor(jobs) as pool:
        for seed, one in enumerate(pool.map(measure, range(1, seeds + 1)), start=1):
            found.append(one)
            print(f"seed {seed} of {seeds}", file=sys.stderr)
    return tables.joined(found)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seeds", type=_positive, default=20, help="default 20")
    options.add_argument("--jobs", type=_positive, default=os.cpu_count(), help="processes")
    options.add_argument("--write", action="store_true", help="write docs/sketches/accuracy.*")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    trials = measure_all(given.seeds, given.jobs)
    for title, table in (
        ("Distinct", tables.distinct_table(trials)),
        ("Frequency", tables.frequency_table(trials)),
        ("Heavy", tables.heavy_table(trials)),
        ("An hour by the pipeline", tables.hour_table(trials)),
    ):
        print(f"\n{title}\n\n{table}")
    if given.write:
        (DOCS / "accuracy.md").write_text(page(trials, given.seeds))
        (DOCS / "accuracy.svg").write_text(plot(trials.distinct))
    write_json(given.json, "accuracy", asdict(trials))
    broken = tables.broken_promises(trials)
    if broken:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
