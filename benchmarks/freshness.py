"""How long it takes until an event's count is visible in ClickHouse, at half load.

Run: python -m benchmarks.freshness [--events N] [--seconds S] [--share X] [--rate R]
     [--form json|frames] [--flush-interval-s S] [--rounds N] [--json FILE]

First a worker's throughput is measured on a filled log. Then, on servers of their own, a producer
sends events at a share of it, while single events with a counter of their own are sent beside it
and looked for in the views. The README beside this file says what the columns are.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import clickhouse_connect

from benchmarks._growth_case import Case, measure
from benchmarks._kit import parser, write_json
from benchmarks._one_worker import one_worker
from benchmarks._probes import LAST_TIMEOUT_S, SETTLE_S, Probes
from benchmarks._tally_run import Site, spent
from tests.kit.processes import Process, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTITIONS = 4
FORMS = ("json", "frames")
HEARTBEATS = (
    "SELECT count(), quantileExact(0.5)(freshness_ms), quantileExact(0.99)(freshness_ms) "
    "FROM tally.freshness WHERE at >= fromUnixTimestamp64Milli({since_ms:Int64})"
)
PARTS = "SELECT count() FROM system.parts WHERE database = 'tally' AND active"


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run found; times in milliseconds, processors' seconds per million events sent."""

    form: str
    throughput_per_s: float
    rate_per_s: float
    probes: int
    p50_ms: float
    p99_ms: float
    greatest_ms: float
    heartbeats: int
    heartbeat_p50_ms: float
    heartbeat_p99_ms: float
    worker_s: float
    clickhouse_s: float
    parts: int
    load_average: float


def measured_throughput(folder: Path, events: int, form: str) -> float:
    """Events per second of one worker that reads a filled log."""
    case = Case("events", "frames" if form == "frames" else "JSON", events, partitions=PARTITIONS)
    return measure(case, folder).events_per_s


def run_live(
    folder: Path, form: str, rate: float, seconds: float, settings: Mapping[str, str]
) -> Figures:
    """One worker on fresh servers, loaded and probed."""
    with one_worker(folder, PARTITIONS, settings) as (site, worker, _):
        load = [site.kafka, str(rate), str(seconds + SETTLE_S), form, str(PARTITIONS)]
        figures = _measure(site, worker, load, seconds)
        worker.stop(timeout_s=60)
    return figures


def _measure(site: Site, worker: Process, arguments: list[str], seconds: float) -> Figures:
    kafka, _, _, form, _ = arguments
    command = [sys.executable, "-m", "benchmarks._load", *arguments]
    with (
        closing(clickhouse_connect.get_client(dsn=site.clickhouse)) as client,
        Process(command, output_path=site.folder / "load.txt") as load,
    ):
        load.wait_for_line(r"^load begins$", timeout_s=60)
        before = spent(site, [worker])
        since_ms = int((time.time() + SETTLE_S) * 1000)
        probes = Probes(kafka, client)
        probes.run(seconds + SETTLE_S)
        ended = load.wait_for_line(r"^load ended (.*)$", timeout_s=LAST_TIMEOUT_S)
        sent = json.loads(ended.group(1))
        total = "SELECT toInt64(sum(net)) FROM tally.totals WHERE family = 'likes'"
        wait_until(
            lambda: client.query(total).result_rows[0][0] == sent["net"],
            f"the load adds up to {sent['net']}",
            timeout_s=LAST_TIMEOUT_S,
            poll_s=0.5,
        )
        cost = spent(site, [worker]).since(before)
        [heartbeats] = client.query(HEARTBEATS, {"since_ms": since_ms}).result_rows
        [[parts]] = client.query(PARTS).result_rows
    times_ms = probes.times_ms()
    return Figures(
        form=form,
        throughput_per_s=0.0,
        rate_per_s=sent["per_s"],
        probes=len(times_ms),
        p50_ms=statistics.median(times_ms),
        p99_ms=times_ms[min(len(times_ms) - 1, int(len(times_ms) * 0.99))],
        greatest_ms=times_ms[-1],
        heartbeats=heartbeats[0],
        heartbeat_p50_ms=heartbeats[1],
        heartbeat_p99_ms=heartbeats[2],
        worker_s=cost.workers_s / sent["sent"] * 1e6,
        clickhouse_s=cost.clickhouse_s / sent["sent"] * 1e6,
        parts=parts,
        load_average=os.getloadavg()[0],
    )


COLUMNS = {
    "worker/s": ("throughput_per_s", ",.0f"),
    "sent/s": ("rate_per_s", ",.0f"),
    "probes": ("probes", ""),
    "p50 ms": ("p50_ms", ",.0f"),
    "p99 ms": ("p99_ms", ",.0f"),
    "max ms": ("greatest_ms", ",.0f"),
    "heartbeats": ("heartbeats", ""),
    "hb p50": ("heartbeat_p50_ms", ",.0f"),
    "hb p99": ("heartbeat_p99_ms", ",.0f"),
    "worker": ("worker_s", ".2f"),
    "ClickHouse": ("clickhouse_s", ".2f"),
    "parts": ("parts", ""),
    "load avg": ("load_average", ".1f"),
}


def print_table(found: list[Figures], load: str) -> None:
    """One line per run."""
    print(f"\nfrom the producer's call to the count in ClickHouse, at {load}")
    print(f"  {'':<8}" + "".join(f"{name:>11}" for name in COLUMNS))
    for one in found:
        figures = (format(getattr(one, name), form) for name, form in COLUMNS.values())
        print(f"  {one.form:<8}" + "".join(f"{figure:>11}" for figure in figures))


def main() -> None:
    options = parser(__doc__, events=600_000, rounds=1)
    options.add_argument("--seconds", type=float, default=60.0, help="of each run; default 60")
    options.add_argument("--share", type=float, default=0.5, help="of the throughput; default 0.5")
    options.add_argument("--rate", type=float, help="events/s, instead of a share of what it can")
    options.add_argument("--form", choices=FORMS, action="append", help="one form")
    options.add_argument("--flush-interval-s", help="of the worker; default is its own")
    chosen = options.parse_args()
    settings = {}
    if chosen.flush_interval_s:
        settings["TALLY_FLUSH_INTERVAL_S"] = chosen.flush_interval_s
    found: list[Figures] = []
    with TemporaryDirectory(prefix="tally-bench-") as name:
        for number in range(chosen.rounds):
            for form in chosen.form or FORMS:
                folder = Path(name) / f"{form}-{number}"
                rate = chosen.rate
                per_s = 0.0
                if not rate:
                    per_s = measured_throughput(folder.with_suffix(".full"), chosen.events, form)
                    rate = chosen.share * per_s
                figures = run_live(folder, form, rate, chosen.seconds, settings)
                found.append(Figures(**{**asdict(figures), "throughput_per_s": per_s}))
    load = "the given rate" if chosen.rate else f"{chosen.share:.0%} of the throughput"
    print_table(found, load)
    write_json(chosen.json, "freshness", {"share": chosen.share, "runs": [*map(asdict, found)]})


if __name__ == "__main__":
    main()
