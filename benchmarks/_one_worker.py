"""One worker on an embedded log and ClickHouse of its own, for what is measured over time."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from benchmarks._replay_log import clickhouse
from benchmarks._tally_run import Site
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

READY_TIMEOUT_S = 300


class OneWorker(NamedTuple):
    """Where the servers are, the worker, and what other programs need to find the same servers."""

    site: Site
    worker: Process
    env: dict[str, str]


@contextmanager
def one_worker(folder: Path, partitions: int, settings: Mapping[str, str]) -> Iterator[OneWorker]:
    """Makes the folder; blocks until the worker is ready. All of them end with the block."""
    folder.mkdir(parents=True)
    log = EmbeddedLog(folder / "log")
    log.start()
    with ExitStack() as stack:
        stack.callback(log.kill)
        url, clickhouse_pid = stack.enter_context(clickhouse(folder))
        env = {
            "TALLY_KAFKA": log.bootstrap,
            "TALLY_CLICKHOUSE": url,
            "TALLY_PARTITIONS": str(partitions),
            **settings,
        }
        command = [sys.executable, "-m", "pipeline.cli", "worker"]
        worker = stack.enter_context(Process(command, output_path=folder / "worker.txt", env=env))
        worker.wait_for_line(r"^worker ready", timeout_s=READY_TIMEOUT_S)
        yield OneWorker(Site(folder, log.bootstrap, log.pid, url, clickhouse_pid), worker, env)
