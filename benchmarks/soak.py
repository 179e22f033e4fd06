"""Hours at half load: memory, handles and latency over time, and whether they stay flat.

Run: python -m benchmarks.soak [--minutes 60] [--share 0.5] [--rate R] [--form json|frames]
     [--write] [--json FILE]

A worker's throughput is measured on a filled log. Then, on servers of their own, a producer sends a
share of it for so long, while single events are looked for in the views (freshness) and totals are
read over the web API. Memory and open files of every process are sampled every two seconds.

Flat means: the median of the run's last third is not above a limit that follows from the median of
the middle third (benchmarks/_soak_flat.py has the limits); of latencies, medians of the p99 of each
half minute. The exit code is 1 if something grew, or if a total is wrong in the end. `--write`
writes docs/benchmarks/soak.svg and soak.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import clickhouse_connect

from benchmarks._kit import write_json
from benchmarks._one_worker import one_worker
from benchmarks._pages import table, written
from benchmarks._probes import LAST_TIMEOUT_S, Probes
from benchmarks._soak_flat import Verdict, p99_by_span, verdict
from benchmarks._soak_plot import plot
from benchmarks._soak_watch import Watch
from benchmarks.freshness import FORMS, PARTITIONS, measured_throughput
from tests.kit.processes import Process, wait_until
from tests.kit.web import Web

if TYPE_CHECKING:
    from benchmarks._soak_flat import Series

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
BEGIN, END = "<!-- soak: written by python -m benchmarks.soak --write -->", "<!-- end of soak -->"
PLOT = "![Memory, open files, freshness and reads over time](soak.svg)"
SPAN_S = 30.0
READ_COUNTERS = 20
THROUGHPUT_EVENTS = 600_000
UNITS = {
    "memory": "memory, MiB",
    "handles": "open files",
    "freshness": "freshness p99, ms",
    "reads": "exact reads over HTTP p99, ms",
}


def soak(folder: Path, form: str, rate: float, seconds: float) -> dict[str, dict[str, Series]]:
    """Everything that was watched, by kind and process. Raises AssertionError for a wrong total."""
    with ExitStack() as stack:
        site, worker, env = stack.enter_context(one_worker(folder, PARTITIONS, {}))
        web = stack.enter_context(Web(env, folder / "web.txt"))
        pids = {
            "log": site.kafka_pid,
            "ClickHouse": site.clickhouse_pid,
            "worker": worker.pid,
            "web": web.process.pid,
        }
        arguments = [site.kafka, str(rate), str(seconds), form, str(PARTITIONS)]
        command = [sys.executable, "-m", "benchmarks._load", *arguments]
        load = stack.enter_context(Process(command, output_path=folder / "load.txt"))
        load.wait_for_line(r"^load begins$", timeout_s=300)
        client = stack.enter_context(closing(clickhouse_connect.get_client(dsn=site.clickhouse)))
        counters = _some_counters(client)
        watch, probes = Watch(pids, web.url, counters), Probes(site.kafka, client)
        watch.start()
        probes.run(seconds)
        watch.stop()
        _expect_total(client, load)
        for error in watch.failed_reads:
            print(f"a read failed: {error}", file=sys.stderr)
        return {
            "memory": watch.memory_mib,
            "handles": watch.handles,
            "freshness": {"p99": p99_by_span(probes.taken_ms(), SPAN_S)},
            "reads": {"p99": p99_by_span(watch.reads_ms, SPAN_S)},
        }


def _some_counters(client: clickhouse_connect.driver.Client) -> list[str]:
    query = f"SELECT counter FROM tally.totals LIMIT {READ_COUNTERS}"
    wait_until(lambda: client.query(query).result_rows, "something is counted", timeout_s=60)
    return [counter for (counter,) in client.query(query).result_rows]


def _expect_total(client: clickhouse_connect.driver.Client, load: Process) -> None:
    ended = load.wait_for_line(r"^load ended (.*)$", timeout_s=LAST_TIMEOUT_S)
    net = json.loads(ended.group(1))["net"]
    total = "SELECT toInt64(sum(net)) FROM tally.totals WHERE family = 'likes'"
    wait_until(
        lambda: client.query(total).result_rows[0][0] == net,
        f"the load adds up to {net}",
        timeout_s=LAST_TIMEOUT_S,
        poll_s=0.5,
    )


def verdicts(found: dict[str, dict[str, Series]], seconds: float) -> list[Verdict]:
    """One of each line that was watched."""
    return [
        verdict(f"{UNITS[kind]}: {name}" if len(several) > 1 else UNITS[kind], kind, one, seconds)
        for kind, several in found.items()
        for name, one in several.items()
    ]


def page(told: list[Verdict], seconds: float, rate: float, form: str) -> str:
    """What the soak found, for docs/benchmarks/soak.md."""
    heads = ("watched", "middle third", "last third", "limit", "flat")
    rows = [
        (one.name, f"{one.middle:.1f}", f"{one.last:.1f}", f"{one.limit:.1f}", _yes(one.is_flat))
        for one in told
    ]
    load = f"The machine's load average was {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores."
    what = f"{seconds / 60:g} minutes at {rate:,.0f} events/s ({form}). Medians. {load}"
    return f"{what}\n\n{PLOT}\n\n{table(heads, rows)}"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "**no**"


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--minutes", type=float, default=60.0, help="default 60")
    options.add_argument("--share", type=float, default=0.5, help="of the throughput; default 0.5")
    options.add_argument("--rate", type=float, help="events/s, instead of a share of what it can")
    options.add_argument("--form", choices=FORMS, default="json", help="default json")
    options.add_argument("--write", action="store_true", help="write docs/benchmarks/soak.*")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = options.parse_args()
    seconds = given.minutes * 60
    with TemporaryDirectory(prefix="tally-soak-") as name:
        folder = Path(name)
        rate = given.rate
        if not rate:
            full = measured_throughput(folder / "full", THROUGHPUT_EVENTS, given.form)
            rate = given.share * full
            print(f"a worker counts {full:,.0f} events/s; {rate:,.0f} are sent", flush=True)
        found = soak(folder / "soak", given.form, rate, seconds)
    told = verdicts(found, seconds)
    text = page(told, seconds, rate, given.form)
    print(text)
    if given.write:
        panels = {UNITS[kind]: several for kind, several in found.items()}
        title = f"{given.minutes:g} minutes at {rate:,.0f} events/s"
        (DOCS / "soak.svg").write_text(plot(title, panels, seconds))
        path = DOCS / "soak.md"
        path.write_text(written(path.read_text(), BEGIN, END, text))
    write_json(given.json, "soak", {"seconds": seconds, "rate": rate, "watched": found})
    return 0 if all(one.is_flat for one in told) else 1


if __name__ == "__main__":
    sys.exit(main())
