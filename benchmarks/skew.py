"""How unevenly partitions are loaded, with every counter whole and with the shard plan, simulated.

Run: python -m benchmarks.skew [--write] [--json FILE]

Counters by Zipf's law and a viral one; the program's own hash, planner and assignor on simulated
time, without a log, so every run finds the same. What a worker bears is in
docs/benchmarks/scale_inputs.toml. `--write` makes docs/benchmarks/skew.svg and the table in
docs/scale.md.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import _skew_page as page
from benchmarks._kit import write_json
from benchmarks._pages import written
from benchmarks._scale_inputs import InputsError, load_inputs
from benchmarks._skew import EXPONENTS, PARTITIONS, VIRAL_SHARE, Loads, Skew, measure
from benchmarks._skew_plot import plot
from pipeline.planning.planner import Thresholds
from schemas.settings import Settings

DOCS = Path(__file__).parents[1] / "docs"


def default_thresholds() -> Thresholds:
    """When counters are split if nothing is set."""
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    return Thresholds(
        defaults["shard_rate_max"],
        defaults["shard_delivery_p99_ms"],
        defaults["shard_cool_s"] * 1000,
    )


def measure_all(worker_rate: float, thresholds: Thresholds) -> list[Skew]:
    """Every exponent with every number of partitions; takes a minute or two."""
    found = []
    for exponent in EXPONENTS:
        loads = Loads.made(exponent)
        for partitions in PARTITIONS:
            found.append(measure(loads, partitions, worker_rate, thresholds))
            print(f"skew: exponent {exponent}, {partitions} partitions", file=sys.stderr)
    return found


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--write", action="store_true", help="write the plot and docs/scale.md")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    try:
        worker_rate = load_inputs().worker_rate("json")
    except InputsError as error:
        sys.exit(f"skew: {error}")
    thresholds = default_thresholds()
    found = measure_all(worker_rate, thresholds)
    text = page.section(worker_rate, thresholds, found)
    print(text)
    if given.write:
        (DOCS / "benchmarks" / "skew.svg").write_text(plot(found, VIRAL_SHARE))
        path = DOCS / "scale.md"
        path.write_text(written(path.read_text(), page.BEGIN, page.END, text))
    write_json(given.json, "skew", {"skew": [asdict(one) for one in found]})


if __name__ == "__main__":
    main()
