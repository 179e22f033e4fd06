"""This pipeline: `tally worker` with everything on, one or several of them.

Run by the race as `python -m benchmarks.race.tally WORKERS`; records say by themselves whether they
are JSON or frames. Workers count into a new build, which is the live one, and flush into the
ClickHouse of the race, with their default settings and the rules of everything.toml. The clock runs
from the first line `worker ready`, before that worker's first fetch, until the flush that completes
the log is confirmed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import clickhouse_connect

from benchmarks._builds import cells_of, uniques_of, wait_for_end
from benchmarks.race.contestants import EVERYTHING, ROOT
from benchmarks.race.contract import count_name, task_of, write_result
from tests.kit.processes import Process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clickhouse_connect.driver import Client

    from benchmarks.race.contract import Task

READY_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Counted:
    """A whole log in ClickHouse: how long it took from when on, and what came out."""

    seconds: float
    began_s: float
    counts: Mapping[str, int]
    uniques: Mapping[str, float]


def count_log(task: Task, workers: int = 1, env: Mapping[str, str] | None = None) -> Counted:
    """Let workers count the log into a new build, and read it back; `env` adds to their settings.

    Blocks until it is done. Raises AssertionError with what a worker wrote when one fails.
    """
    build = int(time.time())
    settings = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "TALLY_KAFKA": task.kafka,
        "TALLY_CLICKHOUSE": task.clickhouse,
        "TALLY_CONFIG": str(EVERYTHING),
        "TALLY_BUILD": str(build),
        **(env or {}),
    }
    command = [sys.executable, "-m", "pipeline.cli", "worker"]
    client = clickhouse_connect.get_client(dsn=task.clickhouse)
    with ExitStack() as stack:
        stack.callback(client.close)
        _declare(client, build, settings, task.folder)
        running = [
            stack.enter_context(
                Process(
                    command,
                    output_path=task.folder / f"worker-{number}.txt",
                    env=settings,
                    cwd=task.folder,
                )
            )
            for number in range(workers)
        ]
        began_s = _first_ready(running)
        ended_ms = wait_for_end(client, build, task.ends)
        for worker in running:
            worker.send(signal.SIGTERM)  # all at once, or the last would be given all partitions
        for worker in running:
            worker.stop(timeout_s=STOP_TIMEOUT_S)
        counts: dict[str, int] = {}
        for (counter, _, window_ms), net in cells_of(client, build).items():
            name = count_name(counter, window_ms)
            counts[name] = counts.get(name, 0) + net
        uniques = {
            count_name(counter, window_ms): estimate
            for (counter, window_ms), estimate in uniques_of(client, build).items()
        }
    return Counted(ended_ms / 1000 - began_s, began_s, counts, uniques)


def _declare(client: Client, build: int, settings: Mapping[str, str], folder: Path) -> None:
    """Make the build the live one: workers of another send no heartbeats and score no trends."""
    migrate = Process(
        [sys.executable, "-m", "pipeline.cli", "migrate"],
        output_path=folder / "migrate.txt",
        env=settings,
        cwd=folder,
    )
    with migrate:
        if migrate.wait(timeout_s=READY_TIMEOUT_S):
            raise RuntimeError(f"tally migrate failed: {migrate.output().strip()}")
    client.command(
        "INSERT INTO tally.builds (cluster, build, declaration, declared_at, note) SELECT '', "
        f"{build}, max(declaration) + 1, now(), 'race' FROM tally.builds WHERE cluster = ''"
    )


def _first_ready(workers: list[Process]) -> float:
    """The time of day at which the first of them began to count."""
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while not any("worker ready" in worker.output() for worker in workers):
        for worker in workers:
            if not worker.running or time.monotonic() > deadline_s:
                worker.wait_for_line(r"^worker ready", timeout_s=0)
        time.sleep(0.01)
    return time.time()


def main() -> None:
    [workers], task = sys.argv[1:], task_of()
    done = count_log(task, int(workers))
    write_result(
        task.result,
        events=task.events,
        seconds=done.seconds,
        began_s=done.began_s,
        counts=done.counts,
        uniques=done.uniques,
    )


if __name__ == "__main__":
    main()
