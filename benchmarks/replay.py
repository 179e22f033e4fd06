"""How quickly a log is counted again, beside a consumer that sums a dict.

Run: python -m benchmarks.replay [--events N] [--minutes M] [--workers W] [--only NAME] [--kafka]
     [--rounds N] [--json FILE]

A replay is `tally worker` with a new build on a log that is there already. Each log was written
over M minutes of log time, by one of these; the README beside this file says what is measured.

    JSON            one record for each increment, with members
    frames, many    `increment_many` of 100 000 increments at a time, without members
    frames, single  `increment` at 500 000 a second, so 10 000 at a time, without members
    frames, members `increment_many` with members, which cannot be combined
"""

from __future__ import annotations

import json
import statistics
import time
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import clickhouse_connect

from benchmarks._builds import RUN_TIMEOUT_S, cells_of
from benchmarks._kit import (
    Contestant,
    Outcome,
    compete,
    parser,
    print_rates,
    rates_document,
    write_json,
)
from benchmarks._replay_log import TOPIC, clickhouse, replay_logs
from benchmarks._replay_stream import SEED, WINDOW_MS, Stream
from benchmarks._tally_run import Site, count_log, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks._replay_log import Log
    from benchmarks._replay_stream import CellName

PARTITIONS = 8
EVENTS = 1_000_000
MINUTES = 10
GOALS = {"JSON": "0.5 of json.loads", "frames, many": "5,000,000 increments/s"}


@dataclass(frozen=True, slots=True)
class Kind:
    """How a log was written: so many times the events, so many increments in a batch."""

    times: int
    batch: int
    members: bool
    peers: tuple[str, ...]

    @property
    def frames(self) -> bool:
        return "pyarrow" in self.peers


KINDS = {
    "JSON": Kind(1, 10_000, members=True, peers=("json.loads", "msgspec")),
    "frames, many": Kind(40, 100_000, members=False, peers=("pyarrow",)),
    "frames, single": Kind(10, 10_000, members=False, peers=("pyarrow",)),
    "frames, members": Kind(2, 100_000, members=True, peers=("pyarrow",)),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One replay's seconds from the start of the first process, and processors' seconds since it
    was ready."""

    whole_s: float
    worker_s: float
    broker_s: float
    door_s: float


@dataclass(slots=True)
class Arena:
    """One kind of log, and what is known of it."""

    name: str
    folder: Path
    log: Log
    peers_log: Log
    stream: Stream
    door: tuple[str, int]
    workers: int
    builds: list[int]
    truth: Mapping[CellName, int]
    costs: list[Cost] = field(default_factory=list)
    runs: int = 0

    def replay(self) -> Outcome:
        """Workers of a new build, from when all are ready until ClickHouse has the whole log."""
        build = self.builds[0] = self.builds[0] + 1
        site = Site(self.folder, self.log.kafka, self.log.pid, *self.door)
        counted = count_log(site, self.log.ends, build, workers=self.workers)
        self.costs.append(Cost(counted.whole_s, *counted.spent))
        with closing(clickhouse_connect.get_client(dsn=site.clickhouse)) as client:
            answer = cells_of(client, build)
        increments = round(self.stream.increments * counted.records / sum(self.log.ends))
        return Outcome(increments, counted.seconds, answer, self.truth)

    def consume(self, how: str) -> Outcome:
        """A peer's process until it has summed the log; it measures itself."""
        result = self.folder / f"{how}-{self.runs}.json"
        messages = sum(self.log.ends)
        arguments = ["benchmarks._replay_peers", how, self.peers_log.kafka, TOPIC, str(messages)]
        self.runs += 1
        with start(self.folder, f"run-{self.runs}", [*arguments, str(result)], {}) as peer:
            peer.wait(timeout_s=RUN_TIMEOUT_S)
            if not result.exists():
                raise RuntimeError(f"{how} ended without a result: {peer.output()[-2000:]}")
        found = json.loads(result.read_text())
        units = round(found["events"] / messages * self.stream.increments)
        return Outcome(units, found["seconds"], found["counts"], self._truth_by_counter())

    def _truth_by_counter(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for (counter, _, window_ms), net in self.truth.items():
            name = f"{counter} {window_ms // WINDOW_MS}"
            sums[name] = sums.get(name, 0) + net
        return sums


def run(name: str, folder: Path, door: tuple[str, int], chosen: Any) -> dict[str, Any]:
    """One kind of log: filled, replayed and read by its peers in turn, printed."""
    kind = KINDS[name]
    start_ms = int(time.time() * 1000) - (chosen.minutes + 2) * WINDOW_MS
    stream = Stream(
        chosen.events * kind.times, kind.batch, chosen.minutes, PARTITIONS, start_ms, kind.members
    )
    messages = stream.frames() if kind.frames else stream.json()
    logs = replay_logs(folder, messages, PARTITIONS, frames=kind.frames, real=chosen.kafka)
    with logs as (log, peers_log):
        truth = stream.truth()
        arena = Arena(name, folder, log, peers_log, stream, door, chosen.workers, _BUILDS, truth)
        tally = Contestant("tally", arena.replay)
        peers = [Contestant(how, partial(arena.consume, how)) for how in kind.peers]
        compete([tally, *peers], chosen.rounds)
    _print(arena, tally, peers)
    return {
        "increments": stream.increments,
        "rows": stream.rows,
        "bytes": log.bytes,
        "rates": rates_document([tally, *peers]),
    }


_BUILDS = [0]


def _print(arena: Arena, tally: Contestant, peers: list[Contestant]) -> None:
    stream, log = arena.stream, arena.log
    title = (
        f"{arena.name}: {stream.increments:,} increments in {stream.rows:,} rows, "
        f"{sum(log.ends):,} records, {log.bytes / 1e6:.0f} MB, {len(arena.truth):,} cells"
    )
    print_rates(title, "increment", [tally, *peers], peers)
    costs = arena.costs[-len(tally.rates) :]
    middle = {
        name: statistics.median(getattr(cost, name) for cost in costs) for name in Cost.__slots__
    }
    rows_per_s = tally.rate * stream.rows / stream.increments
    print(
        f"  tally: {rows_per_s:,.0f} rows/s; {middle['whole_s']:.1f} s from its start; processors' "
        f"seconds: worker {middle['worker_s']:.1f}, broker {middle['broker_s']:.1f}, "
        f"ClickHouse {middle['door_s']:.1f}"
    )
    if arena.name in GOALS:
        print(f"  goal: {GOALS[arena.name]}")


def main() -> None:
    options = parser(__doc__, EVENTS, 3)
    options.add_argument("--minutes", type=int, default=MINUTES, help=f"default {MINUTES}")
    options.add_argument("--workers", type=int, default=1, help="default 1")
    options.add_argument("--only", choices=KINDS, action="append", help="one kind of log")
    options.add_argument("--kafka", action="store_true", help="a real Kafka, not the embedded log")
    chosen = options.parse_args()
    found = {}
    print(f"{PARTITIONS} partitions, {chosen.minutes} minutes of log time, seed {SEED}")
    with TemporaryDirectory(prefix="tally-bench-") as parent, clickhouse(Path(parent)) as door:
        for number, name in enumerate(chosen.only or KINDS):
            found[name] = run(name, Path(parent) / str(number), door, chosen)
    write_json(chosen.json, "replay", found)


if __name__ == "__main__":
    main()
