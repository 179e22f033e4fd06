"""What views and rollups cost in ClickHouse: milliseconds and rows read, with millions of cells.

Run: python -m benchmarks.views [--cells N] [--rounds N] [--json FILE]

The cells are of one day up to now, of five families with a million counters, a few of them hot, in
three regions and eight shards. All questions go over HTTP to the embedded ClickHouse.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import clickhouse_connect

from benchmarks._kit import write_json
from benchmarks._servers import clickhouse
from pipeline.clock import SystemClock
from pipeline.rollup.rollup import Rollup
from schemas.families import Families
from schemas.migrate import migrate

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

SHARDS = 8
CHUNK = 500_000
COUNTER = "likes:12345"
HOT_COUNTER = "likes:7"

# Hashes instead of random numbers, so that every run has the same cells, but for the time of day.
FILL = """
INSERT INTO tally.cells_1m
(build, counter, region, window, slot, replica, shard, p, n, duplicates, through)
SELECT
    1,
    concat(['likes', 'views', 'hashtag', 'shares', 'clicks'][1 + number % 5], ':',
        toString(toUInt32(pow(sipHash64(number, 1) / pow(2, 64), 3) * 200000))) AS counter,
    ['', 'eu', 'us'][1 + sipHash64(number, 2) % 3],
    toStartOfMinute(now() - sipHash64(number, 3) % 86400) AS window,
    toStartOfTenMinutes(
        window + if(sipHash64(number, 4) % 50 = 0 AND window < now() - 3600, 3600, 0)),
    'main', cityHash64(counter) % {shards},
    1 + sipHash64(number, 5) % 100, sipHash64(number, 6) % 3, 0, number
FROM numbers({first}, {count})
"""
POSITIONS = """
INSERT INTO tally.positions (build, replica, shard, flushed_through, log_time)
SELECT 1, 'main', number, 1, now64(3) FROM numbers({shards})
"""

QUESTIONS = {
    "one counter, last hour": (
        f"SELECT sum(count) FROM tally.counts_1m WHERE counter = '{COUNTER}' "
        "AND window >= now() - INTERVAL 60 MINUTE"
    ),
    "one counter, counts_1m": f"SELECT * FROM tally.counts_1m WHERE counter = '{COUNTER}'",
    "one counter, counts_1h": f"SELECT * FROM tally.counts_1h WHERE counter = '{COUNTER}'",
    "one counter, counts_1d": f"SELECT * FROM tally.counts_1d WHERE counter = '{COUNTER}'",
    "one counter, total": f"SELECT * FROM tally.totals WHERE counter = '{COUNTER}'",
    "a hot counter, total": f"SELECT * FROM tally.totals WHERE counter = '{HOT_COUNTER}'",
    "a family, top_last_hour": (
        "SELECT * FROM tally.top_last_hour WHERE family = 'hashtag' AND region = '*' LIMIT 10"
    ),
    "a family and region, top_last_hour": (
        "SELECT * FROM tally.top_last_hour WHERE family = 'hashtag' AND region = 'eu' LIMIT 10"
    ),
    "a family, top_last_day": (
        "SELECT * FROM tally.top_last_day WHERE family = 'hashtag' AND region = '*' LIMIT 10"
    ),
    "a family, top_1h": (
        "SELECT * FROM tally.top_1h WHERE family = 'hashtag' AND region = '*' LIMIT 10"
    ),
    "a family and region, top_1h": (
        "SELECT * FROM tally.top_1h WHERE family = 'hashtag' AND region = 'eu' LIMIT 10"
    ),
    "a family, top_1d": (
        "SELECT * FROM tally.top_1d WHERE family = 'hashtag' AND region = '*' LIMIT 10"
    ),
    "a family, top_by_window_1h, one window": (
        "SELECT * FROM tally.top_by_window_1h WHERE family = 'hashtag' AND region = '*' "
        "AND window = toStartOfHour(now('UTC')) - INTERVAL 3 HOUR LIMIT 10"
    ),
    "one counter, total, with FINAL by hand": (
        "SELECT sum(p) - sum(n) FROM tally.cells_1m FINAL WHERE build = 1 "
        f"AND counter = '{COUNTER}'"
    ),
    "a family, last hour, with FINAL by hand": (
        "SELECT counter, sum(p) - sum(n) AS count FROM tally.cells_1m FINAL WHERE build = 1 "
        "AND family = 'hashtag' AND window > now() - INTERVAL 1 HOUR "
        "GROUP BY counter ORDER BY count DESC LIMIT 10"
    ),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one question or pass took."""

    name: str
    ms: float
    rows_read: int | None


def fill(client: Client, cells: int) -> int:
    """Insert the cells in blocks, which ClickHouse merges in its own time; how many there are."""
    for first in range(0, cells, CHUNK):
        count = min(CHUNK, cells - first)
        client.command(FILL.format(shards=SHARDS, first=first, count=count))
    client.command(POSITIONS.format(shards=SHARDS))
    [(count,)] = client.query("SELECT count() FROM tally.cells_1m").result_rows
    return int(count)


def ask(client: Client, name: str, question: str, rounds: int) -> Cost:
    """The median of several rounds. Its own cache of conditions is off: the first time counts."""
    times_ms, rows = [], 0
    for _ in range(rounds):
        began_s = time.perf_counter()
        answer = client.query(question, settings={"use_query_condition_cache": 0})
        times_ms.append((time.perf_counter() - began_s) * 1000)
        rows = int(answer.summary["read_rows"])
    return Cost(name, statistics.median(times_ms), rows)


def roll_up(client: Client, name: str) -> Cost:
    """One pass over what is open."""
    rollup = Rollup(client, 1, "main", Families(), SystemClock(), longest_query_s=3600)
    rolled = rollup.run(SHARDS)
    label = f"{name}: {rolled.open_cells:,} open cells, {rolled.statements} statements"
    return Cost(label, rolled.took_s * 1000, None)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--cells", type=int, default=10_000_000, help="default 10000000")
    options.add_argument("--rounds", type=int, default=5, help="default 5")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        clickhouse(Path(folder)) as url,
        closing(clickhouse_connect.get_client(dsn=url, send_receive_timeout=300)) as client,
    ):
        migrate(client)
        cells = fill(client, chosen.cells)
        costs = [roll_up(client, "first pass"), roll_up(client, "next pass")]
        costs += [ask(client, *one, chosen.rounds) for one in QUESTIONS.items()]
        sizes = client.query(
            "SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts "
            "WHERE active AND startsWith(table, 'cells_') GROUP BY table ORDER BY table DESC"
        ).result_rows
    print(f"{cells:,} cells\n  {'':<64}{'ms':>10}{'rows read':>14}")
    for cost in costs:
        rows = "" if cost.rows_read is None else f"{cost.rows_read:,}"
        print(f"  {cost.name:<64}{cost.ms:>10,.1f}{rows:>14}")
    for table, rows, size_bytes, parts in sizes:
        print(f"  {table}: {rows:,} rows, {size_bytes / rows:.1f} bytes each, {parts} parts")
    figures = {"cells": cells, "costs": [asdict(cost) for cost in costs]}
    write_json(chosen.json, "views", figures)


if __name__ == "__main__":
    main()
