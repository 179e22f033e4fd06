"""Workers that count a filled log in a build of their own, until ClickHouse has all of it."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import clickhouse_connect

from benchmarks._builds import RUN_TIMEOUT_S, positions, wait_for_end
from tests.kit.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from clickhouse_connect.driver import Client

STOP_TIMEOUT_S = 60
READY_TIMEOUT_S = 60
ROOT = Path(__file__).parent.parent
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
WORKER = ("pipeline.cli", "worker")


@dataclass(frozen=True, slots=True)
class Site:
    """Where workers count: the servers, by address and process, and a folder for their output."""

    folder: Path
    kafka: str
    kafka_pid: int
    clickhouse: str
    clickhouse_pid: int


class Spent(NamedTuple):
    """Processors' seconds of all workers, of the broker, and of ClickHouse."""

    workers_s: float
    broker_s: float
    clickhouse_s: float

    def since(self, before: Spent) -> Spent:
        """What was spent after that."""
        return Spent(*(now - then for now, then in zip(self, before, strict=True)))

    @property
    def all_s(self) -> float:
        return sum(self)


class Moment(NamedTuple):
    """How many records ClickHouse had of, by the flush that was confirmed at that time."""

    records: int
    at_ms: float


@dataclass(frozen=True, slots=True)
class Counted:
    """What was measured from when all workers were ready until the log was counted.

    Of several workers the first one ready begins without the others: `records` are those that were
    left when all were there.
    """

    records: int
    seconds: float
    whole_s: float
    spent: Spent
    peak_bytes: int


def count_log(
    site: Site,
    ends: Sequence[int],
    build: int,
    *,
    workers: int = 1,
    command: Sequence[str] = WORKER,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = RUN_TIMEOUT_S,
    on_ready: Callable[[], object] = lambda: None,
    on_end: Callable[[], object] = lambda: None,
) -> Counted:
    """Count a log with so many offsets in each partition; the workers have ended by then.

    `on_ready` and `on_end` are called when the clock begins and ends. Raises AssertionError after
    `timeout_s`, ProcessFailedError when a worker ends before.
    """
    env = {
        "TALLY_KAFKA": site.kafka,
        "TALLY_CLICKHOUSE": site.clickhouse,
        "TALLY_BUILD": str(build),
        **(settings or {}),
    }
    with ExitStack() as stack:
        client = stack.enter_context(closing(clickhouse_connect.get_client(dsn=site.clickhouse)))
        began_ms = time.time() * 1000
        running = [
            stack.enter_context(start(site.folder, f"worker-{build}-{number}", command, env))
            for number in range(workers)
        ]
        for one in running:
            one.wait_for_line(r"^worker ready", timeout_s=READY_TIMEOUT_S)
        first = _first(client, build, ends) if workers > 1 else Moment(0, time.time() * 1000)
        before = spent(site, running)
        on_ready()
        ended_ms = wait_for_end(client, build, ends, timeout_s=timeout_s)
        after = spent(site, running)
        on_end()
        peak = sum(peak_bytes(one.pid) for one in running)
        for one in running:
            one.stop(timeout_s=STOP_TIMEOUT_S)
    return Counted(
        sum(ends) - first.records,
        (ended_ms - first.at_ms) / 1000,
        (ended_ms - began_ms) / 1000,
        after.since(before),
        peak,
    )


def start(folder: Path, name: str, module: Sequence[str], env: Mapping[str, str]) -> Process:
    """A Python module as a process in a folder, where Faust leaves files."""
    search = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return Process(
        [sys.executable, "-m", *module],
        output_path=folder / f"{name}.txt",
        env={"PYTHONPATH": search, **env},
        cwd=folder,
    )


def _first(client: Client, build: int, ends: Sequence[int]) -> Moment:
    """What was flushed last, so far. Rules and heartbeats of workers lie beyond the ends."""
    found = positions(client, build)
    records = sum(min(position, ends[shard]) for shard, (position, _) in found.items())
    return Moment(records, max((at_ms for _, at_ms in found.values()), default=time.time() * 1000))


def spent(site: Site, workers: Sequence[Process]) -> Spent:
    """What workers and servers spent so far."""
    by_workers = sum(cpu_s(worker.pid) for worker in workers)
    return Spent(by_workers, cpu_s(site.kafka_pid), cpu_s(site.clickhouse_pid))


def cpu_s(pid: int) -> float:
    """Time a process had on processors, all threads together, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def peak_bytes(pid: int) -> int:
    """The most memory that a process held so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
