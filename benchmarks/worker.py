"""How quickly a worker counts a log, beside what people would use instead.

Run: python -m benchmarks.worker [--events N] [--faust-events N] [--flush-interval-s S] [--rounds N]
     [--json FILE]

All read the same embedded log from its beginning, each round in fresh processes. The README
beside this file says what is measured, from when to when.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import clickhouse_connect

from benchmarks._events import SEED, WINDOW_MS, Event, by_partition, make_events, truth
from benchmarks._frames import as_frames
from benchmarks._kit import (
    Contestant,
    Outcome,
    compete,
    parser,
    print_rates,
    rates_document,
    write_json,
)
from benchmarks._servers import TOPIC, FilledLog, clickhouse, filled_log
from benchmarks._tally_run import RUN_TIMEOUT_S, cells_of, start, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks._events import CellName
    from tests.kit.processes import Process

PARTITIONS = 4
EVENTS_PER_FRAME = 5_000
EVENTS_AGE_MS = 600_000
"""How long ago the first event happened: long enough that none lies ahead of the log's time."""


@dataclass(slots=True)
class Arena:
    """What the contestants share: the events, where the servers are, and a folder."""

    folder: Path
    parts: list[list[Event]]
    clickhouse: str
    flush_interval_s: float
    builds: int = 0
    runs: int = 0
    truths: dict[tuple[int, ...], Mapping[str, int]] = field(default_factory=dict)
    expected_cells: Mapping[CellName, int] = field(default_factory=dict)

    @property
    def events(self) -> int:
        return sum(map(len, self.parts))

    def start(self, arguments: list[str], env: Mapping[str, str]) -> Process:
        """A contestant's process, in the arena's folder, where Faust leaves files."""
        self.runs += 1
        return start(self.folder, f"run-{self.runs}", arguments, env)

    def truth_of(self, lengths: tuple[int, ...]) -> Mapping[str, int]:
        """The counts per counter and minute of so many first events of each partition."""
        if lengths not in self.truths:
            sums: Counter[str] = Counter()
            for part, length in zip(self.parts, lengths, strict=True):
                for (counter, _, window_ms), net in truth(part[:length]).items():
                    sums[f"{counter} {window_ms // WINDOW_MS}"] += net
            self.truths[lengths] = dict(sums)
        return self.truths[lengths]


def run_tally(arena: Arena, log: FilledLog) -> Outcome:
    """`tally worker` from "worker ready" until ClickHouse has the whole log, in a new build."""
    arena.builds += 1
    build = arena.builds
    env = {
        "TALLY_KAFKA": log.kafka,
        "TALLY_CLICKHOUSE": arena.clickhouse,
        "TALLY_BUILD": str(build),
        "TALLY_FLUSH_INTERVAL_S": str(arena.flush_interval_s),
    }
    client = clickhouse_connect.get_client(dsn=arena.clickhouse)
    with arena.start(["pipeline.cli", "worker"], env) as worker:
        worker.wait_for_line(r"^worker ready", timeout_s=60)
        started_ms = time.time() * 1000
        ended_ms = wait_for_end(client, build, log.ends)
        worker.stop(timeout_s=60)
    answer = cells_of(client, build)
    client.close()
    return Outcome(arena.events, (ended_ms - started_ms) / 1000, answer, arena.expected_cells)


def run_peer(arena: Arena, log: FilledLog, name: str, events: int) -> Outcome:
    """A peer's process until it has counted so many events; it measures itself."""
    result = arena.folder / f"{name}-{arena.runs}.json"
    arguments = ["benchmarks._peers", name, log.kafka, TOPIC, str(events), str(result)]
    with arena.start(arguments, {}) as peer:
        peer.wait(timeout_s=RUN_TIMEOUT_S)
        if not result.exists():
            raise RuntimeError(f"{name} ended without a result: {peer.output()[-2000:]}")
    found = json.loads(result.read_text())
    lengths = tuple(found["partitions"].get(str(number), 0) for number in range(PARTITIONS))
    if sum(lengths) != events:
        raise RuntimeError(f"{name} took {sum(lengths)} of {events} events")
    counts = found["counts"]
    expected = None if counts is None else arena.truth_of(lengths)
    return Outcome(found["events"], found["seconds"], counts, expected)


def contestants(
    arena: Arena,
    json_log: FilledLog,
    frame_log: FilledLog,
    peers_log: FilledLog,
    faust_events: int,
) -> list[Contestant]:
    """Peers have a log of their own: to the others Tally's workers append rules and heartbeats."""
    few, all_ = min(faust_events, arena.events), arena.events
    return [
        Contestant("tally worker, JSON", lambda: run_tally(arena, json_log)),
        Contestant("tally worker, frames", lambda: run_tally(arena, frame_log)),
        Contestant("Faust, Table", lambda: run_peer(arena, peers_log, "faust-table", few)),
        Contestant("Faust, dict", lambda: run_peer(arena, peers_log, "faust-dict", few)),
        Contestant("confluent + json.loads", lambda: run_peer(arena, peers_log, "confluent", all_)),
        Contestant("confluent, bare", lambda: run_peer(arena, peers_log, "bare", all_)),
    ]


def main() -> None:
    options = parser(__doc__, events=600_000, rounds=3)
    options.add_argument(
        "--faust-events", type=int, default=10_000, help="for plain Faust; default 10000"
    )
    options.add_argument(
        "--flush-interval-s", type=float, default=1.0, help="of tally worker; default 1"
    )
    chosen = options.parse_args()
    start_ms = int(time.time() * 1000) - EVENTS_AGE_MS
    parts = by_partition(make_events(chosen.events, start_ms), PARTITIONS)
    values = [[event.as_json() for event in part] for part in parts]
    frames = [as_frames(part, EVENTS_PER_FRAME) for part in parts]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tally-bench-")))
        json_log = stack.enter_context(filled_log(folder / "json", values, frames=False))
        frame_log = stack.enter_context(filled_log(folder / "frames", frames, frames=True))
        peers_log = stack.enter_context(filled_log(folder / "peers", values, frames=False))
        url = stack.enter_context(clickhouse(folder))
        arena = Arena(folder, parts, url, chosen.flush_interval_s)
        arena.expected_cells = truth(event for part in parts for event in part)
        competing = contestants(arena, json_log, frame_log, peers_log, chosen.faust_events)
        for one in (competing[0], competing[-1]):
            one.take_turn(counted=False)  # the servers touch their memory and files here
        compete(competing, chosen.rounds, warm_ups=0)
        cells = len(arena.expected_cells)
    title = f"{arena.events:,} events in {cells:,} cells, {PARTITIONS} partitions, seed {SEED}"
    print_rates(title, "event", competing, [competing[-1], competing[2]])
    write_json(chosen.json, "worker", {"events": arena.events, "rates": rates_document(competing)})


if __name__ == "__main__":
    main()
