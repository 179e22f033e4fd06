"""Hours at half load: memory, handles and latency over time, and whether they stay flat.

Run: python -m benchmarks.soak [--minutes 60] [--share 0.5] [--rate R] [--form json|frames]
     [--write] [--json FILE]

How much of the traffic one worker counts is measured on a filled log. Then, on servers of their
own, a producer sends a share of it for so long: every kind of family, fresh ids, counters and
members that come and go (benchmarks/_soak_traffic.py). Beside it strict commands are asked, single
events are looked for in the views (freshness), and totals, distinct counts and rankings are read
over the web API. Memory and open files of every process are sampled every two seconds.

Flat means: the median of the run's last third is not above a limit that follows from the median of
the middle third, and the slope over both is not above a limit per hour for each process, beyond
what is known to grow (benchmarks/_soak_flat.py has the limits, _soak_known.py the formulas). Of
latencies, medians of the p99 of each half minute. The exit code is 1 if something grew, if more
than one read or command in a thousand failed, or if the load fell behind; a wrong total or answer
raises. `--write` writes docs/benchmarks/soak.svg and soak.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import clickhouse_connect

from benchmarks._kit import WrongAnswerError, write_json
from benchmarks._one_worker import one_worker
from benchmarks._pages import written
from benchmarks._probes import LAST_TIMEOUT_S, Probes
from benchmarks._soak_flat import p99_by_span
from benchmarks._soak_full import full_rate
from benchmarks._soak_known import clickhouse_bytes, log_bytes, segments_in, worker_bytes
from benchmarks._soak_page import UNITS, Found, page
from benchmarks._soak_plot import plot
from benchmarks._soak_traffic import RULES
from benchmarks._soak_watch import Watch
from benchmarks.freshness import FORMS, PARTITIONS
from tests.kit.processes import Process, wait_until
from tests.kit.web import Web

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clickhouse_connect.driver import Client

    from benchmarks._soak_strict import Trickle
    from benchmarks._tally_run import Site

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
BEGIN, END = "<!-- soak: written by python -m benchmarks.soak --write -->", "<!-- end of soak -->"
SPAN_S = 30.0
SPANS_MIN = 12
"""Of latencies a run has at least so many spans, however short they are."""

THROUGHPUT_EVENTS = 600_000
FAILURES_SHOWN = 20
BEHIND_S_MAX = 900.0
"""A worker that was not up to the load may take so long to count what was sent: the run has failed
then, by its freshness, but an hour's figures say by what."""


def soak(
    folder: Path, form: str, rate: float, seconds: float, settings: Mapping[str, str]
) -> Found:
    """Everything that was watched. Raises WrongAnswerError for a wrong total or answer."""
    with ExitStack() as stack:
        site, worker, env = stack.enter_context(one_worker(folder, PARTITIONS, settings))
        web = stack.enter_context(Web(env, folder / "web.txt"))
        pids = {
            "log": site.kafka_pid,
            "ClickHouse": site.clickhouse_pid,
            "worker": worker.pid,
            "web": web.process.pid,
        }
        arguments = [site.kafka, str(rate), str(seconds), form, str(PARTITIONS)]
        command = [sys.executable, "-m", "benchmarks._soak_load", *arguments]
        load = stack.enter_context(Process(command, output_path=folder / "load.txt"))
        load.wait_for_line(r"^load begins$", timeout_s=300)
        client = stack.enter_context(closing(clickhouse_connect.get_client(dsn=site.clickhouse)))
        asking = stack.enter_context(closing(clickhouse_connect.get_client(dsn=site.clickhouse)))
        _wait_for_counts(client)
        watch = stack.enter_context(Watch(pids, _known(site, asking), web.url))
        probes = Probes(site.kafka, client)
        probes.run(seconds, BEHIND_S_MAX)
        watch.stop()
        ended = load.wait_for_line(r"^load ended (.*)$", timeout_s=LAST_TIMEOUT_S)
        told = json.loads(ended.group(1))
        _expect_totals(client, told["net"])
        _expect_decisions(client, watch.trickle)
        return _found(watch, probes, min(SPAN_S, seconds / SPANS_MIN), rate, told)


def _found(
    watch: Watch, probes: Probes, span_s: float, rate: float, told: Mapping[str, Any]
) -> Found:
    for kind, errors in watch.failed.items():
        for error in errors[:FAILURES_SHOWN]:
            print(f"{kind}: {error}", file=sys.stderr)
    watched = {
        "memory": watch.memory_mib,
        "handles": watch.handles,
        "freshness": {"p99": p99_by_span(probes.taken_ms(), span_s)},
        "reads": {kind: p99_by_span(taken, span_s) for kind, taken in watch.reads_ms.items()},
        "commands": {"p99": p99_by_span(watch.commands_ms, span_s)},
    }
    return Found(watched, watch.known_mib, watch.asked(), rate, told["per_s"], told["processor"])


def _known(site: Site, client: Client) -> dict[str, Any]:
    folder = site.folder / "log"
    return {
        "worker": worker_bytes,
        "log": lambda _: log_bytes(segments_in(folder)),
        "ClickHouse": lambda _: clickhouse_bytes(client),
    }


def _wait_for_counts(client: Client) -> None:
    query = "SELECT counter FROM tally.totals WHERE family = 'likes' LIMIT 1"
    wait_until(lambda: client.query(query).result_rows, "something is counted", timeout_s=60)


def _expect_totals(client: Client, net: Mapping[str, int]) -> None:
    families = ", ".join(f"'{family}'" for family in net)
    query = (
        "SELECT family, toInt64(sum(net)) FROM tally.totals "
        f"WHERE family IN ({families}) GROUP BY family"
    )
    _expect(client, query, net)


def _expect_decisions(client: Client, trickle: Trickle) -> None:
    if trickle.wrong:
        raise WrongAnswerError(f"strict: {trickle.wrong[0]}")
    _expect(client, "SELECT counter, value FROM tally.strict_totals", trickle.stock.left)


def _expect(client: Client, query: str, wanted: Mapping[str, int]) -> None:
    found: dict[str, int] = {}

    def is_right() -> bool:
        found.clear()
        found.update((name, value) for name, value in client.query(query).result_rows)
        return found == wanted

    try:
        wait_until(is_right, query, timeout_s=LAST_TIMEOUT_S, poll_s=0.5)
    except AssertionError as error:
        raise WrongAnswerError(f"{query}: {found} instead of {wanted}") from error


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
        rules = folder / "tally.toml"
        rules.write_text(RULES)
        settings = {"TALLY_CONFIG": str(rules)}
        rate = given.rate
        if not rate:
            full = full_rate(folder / "full", THROUGHPUT_EVENTS, given.form, PARTITIONS, settings)
            rate = given.share * full
            print(f"a worker counts {full:,.0f} events/s; {rate:,.0f} are sent", flush=True)
        found = soak(folder / "soak", given.form, rate, seconds, settings)
    machine = f"The machine's load average was {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores."
    text = page(found, seconds, given.form, machine)
    print(text)
    if given.write:
        panels = {UNITS[kind]: several for kind, several in found.watched.items()}
        title = f"{given.minutes:g} minutes at {found.sent_per_s:,.0f} events/s"
        (DOCS / "soak.svg").write_text(plot(title, panels, seconds))
        path = DOCS / "soak.md"
        path.write_text(written(path.read_text(), BEGIN, END, text))
    write_json(given.json, "soak", {"seconds": seconds, **asdict(found)})
    return 0 if found.is_well(seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
