"""Reads and writes over HTTP while events are counted, beside Redis, ClickHouse and bare FastAPI.

Run: python -m benchmarks.reads [--seconds S] [--load R] [--rounds N] [--json FILE]

`tally up` on fresh data with its default settings, filled with a hundred thousand events of a
thousand counters, and R increments a second while it is measured. Contestants take turns; each gets
requests at a steady rate from a process of its own. The README beside this file says what the
columns are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from benchmarks._kit import WrongAnswerError, write_json
from benchmarks._tally_run import cpu_s
from pipeline.producer import Producer
from tests.kit.processes import Process, wait_until
from tests.kit.tally import tally_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kit.tally import RunningTally

COUNTERS = 1_000
HOT = 100
"""How many counters are read: those that everybody looks at."""

EVENTS = 100_000
CONNECTIONS = 16
SHARES_S = 10.0
"""For how long the parts are watched while nobody reads: what is left of the processors is what
readers can have."""

WARM_UP_S = 3.0
"""Of a turn of each that is not counted: what a server is asked for the first time is slow."""


@dataclass
class Contestant:
    """Requests to one server at one rate."""

    name: str
    address: str
    rate: float
    lines: list[tuple[str, str]]
    goal_ms: float | None = None
    rounds: list[dict[str, float]] = field(default_factory=list)

    def take_turn(self, seconds: float) -> None:
        """Raises WrongAnswerError when an answer is wrong or missing."""
        host, _, port = self.address.rpartition(":")
        command = [sys.executable, "-m", "benchmarks._paced", host, port]
        command += [str(self.rate), str(seconds), str(CONNECTIONS)]
        text = "\n".join(json.dumps(line) for line in self.lines)
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, timeout=seconds + 60
        )
        found = json.loads(done.stdout)
        if found["wrong"] or found["answered"] != found["sent"]:
            raise WrongAnswerError(
                f"{self.name}: {found['answered']} of {found['sent']} answered, {found['wrong']}"
            )
        self.rounds.append(found)

    def of(self, name: str) -> float:
        """The median of the rounds."""
        return median(one[name] for one in self.rounds)


def get(path: str, host: str) -> str:
    """A request of HTTP that keeps its connection."""
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"


def post(path: str, host: str, body: str) -> str:
    """The same with a body."""
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n{body}"


def contestants(
    tally: RunningTally, web: str, constant: str, redis: str | None
) -> list[Contestant]:
    """All of them, the rates as their goals have them."""
    clickhouse = urlsplit(tally.clickhouse).netloc
    counters = [f"bench:counter-{number}" for number in range(HOT)]
    paths = [f"/api/v1/counters/{quote(name)}" for name in counters]
    ok = "HTTP/1.1 200"
    found = [
        Contestant("bare FastAPI constant", constant, 1000, [(get("/constant", constant), ok)]),
        Contestant("cached", web, 1000, [(get(path, web), ok) for path in paths], 5),
        Contestant("exact", web, 50, [(get(f"{path}/exact", web), ok) for path in paths], 40),
        Contestant("live", web, 5, [(get(f"{path}/live", web), ok) for path in paths]),
        Contestant(
            "increment",
            web,
            200,
            [(post(f"{path}/increment", web, '{"region": "eu"}'), ok) for path in paths],
            10,
        ),
        Contestant(
            "plain ClickHouse query, totals",
            clickhouse,
            10,
            [
                (
                    post(
                        "/", clickhouse, f"SELECT total FROM tally.totals WHERE counter = '{name}'"
                    ),
                    ok,
                )
                for name in counters
            ],
        ),
    ]
    if redis is not None:
        found.append(
            Contestant("Redis GET", redis, 1000, [(f"GET {name}\r\n", "$") for name in counters])
        )
    return found


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str | None]:
    """Its address, with the counters in it; None where it is not installed."""
    if shutil.which("redis-server") is None:
        print("redis-server is not installed: left out")
        yield None
        return
    port = 16_379 + os.getpid() % 1000
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with Process([*command, "--dir", str(folder)], output_path=folder / "redis.txt") as server:
        server.wait_for_line(r"Ready to accept connections", timeout_s=20)
        sets = "".join(f"SET bench:counter-{number} {number}\r\n" for number in range(HOT))
        subprocess.run(
            ["redis-cli", "-p", str(port)],
            input=sets,
            text=True,
            capture_output=True,
            check=True,
            timeout=20,
        )
        yield f"127.0.0.1:{port}"


def fill(tally: RunningTally) -> None:
    """A hundred thousand events, counted before anything is measured."""
    names = [f"bench:counter-{number % COUNTERS}" for number in range(EVENTS)]
    with Producer(tally.kafka) as producer:
        producer.increment_many({"counter": names})
    total = "SELECT toInt64(sum(net)) FROM tally.totals WHERE family = 'bench'"
    wait_until(lambda: tally.rows(total) == [(EVENTS,)], "all is counted", timeout_s=60, poll_s=0.5)


def shares(pids: Mapping[str, int]) -> dict[str, float]:
    """What each process takes of one processor, now. Blocks for as long as they are watched."""
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    time.sleep(SHARES_S)
    return {name: (cpu_s(pid) - before[name]) / SHARES_S for name, pid in pids.items()}


def print_table(found: list[Contestant]) -> None:
    print(f"\n  {'':<34}{'asked/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'greatest':>10}{'goal':>8}")
    for one in found:
        goal = "" if one.goal_ms is None else f"< {one.goal_ms:g}"
        print(
            f"  {one.name:<34}{one.rate:>9,.0f}{one.of('p50_ms'):>9.2f}{one.of('p99_ms'):>9.2f}"
            f"{one.of('greatest_ms'):>10.1f}{goal:>8}"
        )
    by_name = {one.name: one for one in found}
    bare, cached = by_name["bare FastAPI constant"], by_name["cached"]
    for figure in ("p50_ms", "p99_ms"):
        ratio = median(
            a[figure] / b[figure] for a, b in zip(cached.rounds, bare.rounds, strict=True)
        )
        print(f"  cached beside the bare constant, {figure[:3]}: {ratio:.2f} times")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=10.0, help="of each turn")
    options.add_argument("--load", type=float, default=2_000.0, help="increments a second beside")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", type=Path, metavar="FILE")
    asked = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        tally = stack.enter_context(tally_up(folder))
        addresses = json.loads((folder / "data" / "addresses.json").read_text())
        web, pids = addresses["web"], addresses["pids"]
        constant = stack.enter_context(
            Process([sys.executable, "-m", "benchmarks._constant"], output_path=folder / "c.txt")
        )
        port = constant.wait_for_line(r"^constant ready (\d+)$", timeout_s=30).group(1)
        redis = stack.enter_context(redis_server(folder))
        fill(tally)
        found = contestants(tally, web, f"127.0.0.1:{port}", redis)
        if asked.load:
            seconds = (asked.seconds + 3) * len(found) * asked.rounds + SHARES_S + 60
            load = [sys.executable, "-m", "pipeline.cli", "load", "--family", "beside"]
            load += ["--rate", str(asked.load), "--seconds", str(round(seconds))]
            loading = Process(load, output_path=folder / "load.txt", env=tally.env)
            pids["load"] = stack.enter_context(loading).pid
        for one in found:
            one.take_turn(WARM_UP_S)
            one.rounds.clear()
        unread = shares(pids)
        for number in range(asked.rounds):
            first = number % len(found)
            for one in [*found[first:], *found[:first]]:
                one.take_turn(asked.seconds)
    print_table(found)
    told = ", ".join(f"{name} {share:.0%}" for name, share in unread.items())
    print(f"  of a processor, while nobody reads: {told}")
    print(f"  load average {os.getloadavg()[0]:.1f}, {asked.load:,.0f} increments a second beside")
    write_json(
        asked.json, "reads", {"contestants": [asdict(one) for one in found], "shares": unread}
    )


if __name__ == "__main__":
    main()
