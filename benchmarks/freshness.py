"""How long it takes until an event's count is visible in ClickHouse, at half load.

Run: python -m benchmarks.freshness [--events N] [--seconds S] [--share X] [--rounds N]
     [--json FILE]

First a worker's throughput is measured as in benchmarks.race. Then, on servers of their own, a
producer sends events at a share of it, while single events with a counter of their own are sent
beside it and looked for in the views. The README beside this file says what the columns are.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import clickhouse_connect
from confluent_kafka import Producer

from benchmarks._kit import WrongAnswerError, parser, write_json
from benchmarks._servers import TOPIC, clickhouse
from benchmarks.race.arena import arena
from benchmarks.race.contestants import ENTRIES, Log
from benchmarks.race.turns import take_turn
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process, wait_until

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

PARTITIONS = 4
PROBE_EVERY_S = 0.2
LOOK_EVERY_S = 0.05
SETTLE_S = 5.0
"""What is sent in the beginning is not measured: files and caches are touched there first."""

LAST_TIMEOUT_S = 60
# Of minutes and slots that are new, so that looking stays as cheap as it was at the start.
SEEN = (
    "SELECT counter, toInt64(sum(count)) FROM tally.counts_1m "
    "WHERE counter >= 'probe:' AND counter < 'probe;' AND window >= now() - INTERVAL 3 MINUTE "
    "GROUP BY counter"
)
HEARTBEATS = (
    "SELECT count(), quantileExact(0.5)(freshness_ms), quantileExact(0.99)(freshness_ms) "
    "FROM tally.freshness WHERE at >= fromUnixTimestamp64Milli({since_ms:Int64})"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run found; times in milliseconds."""

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
    load_average: float


def measured_throughput(folder: Path, events: int, *, frames: bool) -> float:
    """Events per second of one worker that reads a filled log, as in benchmarks.race."""
    folder.mkdir()
    entry = next(
        one for one in ENTRIES if one.log is (Log.FRAMES if frames else Log.JSON)
    )  # the first of them has one worker
    with arena(folder, events, [(entry.log, entry.share)], real=False) as place:
        take_turn(entry, place)
        turn = take_turn(entry, place)
    return turn.events / turn.seconds


class Probes:
    """Single events, sent one after another, and when each was first seen."""

    def __init__(self, kafka: str, client: Client) -> None:
        self._producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0, "log_level": 0})
        self._client = client
        self._sent_s: dict[str, float] = {}
        self.took_s: dict[str, float] = {}

    def send(self) -> None:
        """One more. The clock runs from the call of the producer on."""
        counter = f"probe:{len(self._sent_s)}"
        self._sent_s[counter] = time.monotonic()
        value = json.dumps({"counter": counter}).encode()
        self._producer.produce(TOPIC, value, key=counter.encode())
        self._producer.poll(0)

    def look(self) -> bool:
        """Note what is visible by now; True when nothing is missing. A doubled count is wrong."""
        for counter, count in self._client.query(SEEN).result_rows:
            if count != 1:
                raise WrongAnswerError(f"{counter} is {count} instead of 1")
            self.took_s.setdefault(counter, time.monotonic() - self._sent_s[counter])
        return len(self.took_s) == len(self._sent_s)

    def run(self, seconds: float) -> None:
        """Send and look, for so long."""
        began_s = next_s = time.monotonic()
        while (now_s := time.monotonic()) < began_s + seconds:
            if now_s >= next_s:
                self.send()
                next_s += PROBE_EVERY_S
            self.look()
            time.sleep(LOOK_EVERY_S)
        wait_until(self.look, "all probes are counted", timeout_s=LAST_TIMEOUT_S)

    def times_ms(self) -> list[float]:
        """Of those that were sent after the beginning had settled, in order of size."""
        first_s = min(self._sent_s.values()) + SETTLE_S
        return sorted(
            1000 * took_s for name, took_s in self.took_s.items() if self._sent_s[name] >= first_s
        )


def run_live(folder: Path, form: str, rate: float, seconds: float) -> Figures:
    """One worker with its own settings on fresh servers, loaded and probed."""
    folder.mkdir()
    log = EmbeddedLog(folder / "log")
    log.start()
    with ExitStack() as stack:
        stack.callback(log.kill)
        url = stack.enter_context(clickhouse(folder))
        env = {
            "TALLY_KAFKA": log.bootstrap,
            "TALLY_CLICKHOUSE": url,
            "TALLY_PARTITIONS": str(PARTITIONS),
        }
        command = [sys.executable, "-m", "pipeline.cli", "worker"]
        worker = Process(command, output_path=folder / "worker.txt", env=env)
        with worker:
            worker.wait_for_line(r"^worker ready", timeout_s=60)
            load = [log.bootstrap, str(rate), str(seconds + SETTLE_S), form, str(PARTITIONS)]
            figures = _measure(folder, load, url, seconds)
            worker.stop(timeout_s=60)
    return figures


def _measure(folder: Path, arguments: list[str], url: str, seconds: float) -> Figures:
    kafka, _, _, form, _ = arguments
    client = clickhouse_connect.get_client(dsn=url)
    command = [sys.executable, "-m", "benchmarks._load", *arguments]
    with Process(command, output_path=folder / "load.txt") as load:
        load.wait_for_line(r"^load begins$", timeout_s=60)
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
    [heartbeats] = client.query(HEARTBEATS, {"since_ms": since_ms}).result_rows
    client.close()
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
        load_average=os.getloadavg()[0],
    )


def print_table(found: list[Figures], share: float) -> None:
    """One line per run."""
    print(
        f"\nfrom the producer's call to the count in ClickHouse, at {share:.0%} of the throughput"
    )
    print(
        f"  {'':<8}{'worker/s':>12}{'sent/s':>12}{'probes':>8}{'p50 ms':>9}{'p99 ms':>9}"
        f"{'max ms':>9}{'heartbeats':>12}{'p50 ms':>9}{'p99 ms':>9}{'load avg':>10}"
    )
    for one in found:
        print(
            f"  {one.form:<8}{one.throughput_per_s:>12,.0f}{one.rate_per_s:>12,.0f}"
            f"{one.probes:>8}{one.p50_ms:>9,.0f}{one.p99_ms:>9,.0f}{one.greatest_ms:>9,.0f}"
            f"{one.heartbeats:>12}{one.heartbeat_p50_ms:>9,.0f}{one.heartbeat_p99_ms:>9,.0f}"
            f"{one.load_average:>10.1f}"
        )


def main() -> None:
    options = parser(__doc__, events=600_000, rounds=1)
    options.add_argument("--seconds", type=float, default=60.0, help="of each run; default 60")
    options.add_argument("--share", type=float, default=0.5, help="of the throughput; default 0.5")
    chosen = options.parse_args()
    found: list[Figures] = []
    with TemporaryDirectory(prefix="tally-bench-") as name:
        for number in range(chosen.rounds):
            for form in ("json", "frames"):
                folder = Path(name) / f"{form}-{number}"
                per_s = measured_throughput(
                    folder.with_suffix(".full"), chosen.events, frames=form == "frames"
                )
                figures = run_live(folder, form, chosen.share * per_s, chosen.seconds)
                found.append(Figures(**{**asdict(figures), "throughput_per_s": per_s}))
    print_table(found, chosen.share)
    write_json(chosen.json, "freshness", {"share": chosen.share, "runs": [*map(asdict, found)]})


if __name__ == "__main__":
    main()
