"""How evenly shard strategies spread a viral counter, and what its shards cost readers.

Run: python -m benchmarks.shards [--rows N] [--cells N] [--rounds N] [--write] [--json FILE]

The spread is simulated with the strategies themselves and is the same in every run; reading is
measured on an embedded ClickHouse. `--write` puts the tables into docs/sharding.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import _shards_cost as cost
from benchmarks import _shards_page as page
from benchmarks import _shards_reads as reads
from benchmarks import _shards_spread as spread
from benchmarks._kit import write_json
from benchmarks._pages import written
from pipeline.sharding import STRATEGIES

PAGE = Path(__file__).parents[1] / "docs" / "sharding.md"
SEED = 1


def measure_spread(rows: int) -> list[spread.Spread]:
    """All strategies with all numbers of shards; with one shard they are the same."""
    stream = spread.Stream.made(rows, SEED)
    found = []
    for n in spread.SHARDS:
        for strategy in STRATEGIES if n > 1 else STRATEGIES[:1]:
            found.append(spread.measure(stream, strategy, n))
            print(f"spread: {strategy}, {n} shards", file=sys.stderr)
    return found


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rows", type=int, default=1_000_000, help="default 1000000")
    options.add_argument("--cells", type=int, default=4_000_000, help="default 4000000")
    options.add_argument("--rounds", type=int, default=25, help="default 25")
    options.add_argument("--write", action="store_true", help="write into docs/sharding.md")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    spreads = measure_spread(given.rows)
    costs = cost.measure(given.rounds)
    answers = reads.measure(spread.SHARDS, given.cells, given.rounds)
    measured = "\n\n".join(
        (
            page.spread_section(given.rows, spreads),
            page.reads_section(given.cells, given.rounds, os.getloadavg()[0], answers),
            page.cost_section(given.rounds, costs),
        )
    )
    print(measured)
    if given.write:
        PAGE.write_text(written(PAGE.read_text(), page.BEGIN, page.END, measured))
    figures = {
        "spread": [asdict(one) for one in spreads],
        "reads": [asdict(one) for one in answers],
        "choosing": [asdict(one) for one in costs],
    }
    write_json(given.json, "shards", figures)


if __name__ == "__main__":
    main()
