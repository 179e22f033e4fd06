"""A running Tally with days of history and a stream that never stops."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.builds.past import write_past
from tests.integration.worker.site import QUICK, Site, Worker, fresh_site
from tests.integration.worker.stream import Stream
from tests.kit.kafka import BROKERS_OF_LONG_FORMS, require_kafka
from tests.kit.processes import Process
from tests.kit.tally import TALLY

DAYS = 5
FAMILY = "past"
CONFIG = '[default]\nids = { horizon = "6h" }\n'
RULES = {"version": 5, "default": {"ids_horizon_ms": 6 * 3_600_000}}
REPLAY_TIMEOUT_S = 240


@dataclass
class Running:
    """Workers that follow the live build, and what was sent to them."""

    site: Site
    stream: Stream
    ends: list[list[int]]
    """The end of every partition after every hour of the past."""

    workers: list[Worker] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return {**self.site.tally.env, **QUICK, "TALLY_ROLLUP_INTERVAL_S": "3"}

    def start_worker(self) -> Worker:
        """One that follows the live build."""
        path = self.site.folder / f"follower-{len(self.workers)}.txt"
        worker = Worker([*TALLY, "worker"], output_path=path, env=self.env)
        self.site.workers.append(worker)
        self.workers.append(worker)
        return worker

    def replay(self, *arguments: str, fault: str | None = None, name: str = "replay") -> Process:
        """`tally replay`, as people run it."""
        env = self.env if fault is None else {**self.env, "TALLY_WORKER_FAULT": fault}
        path = self.site.folder / f"{name}.txt"
        return Process([*TALLY, "replay", *arguments], output_path=path, env=env)

    def live(self) -> int:
        """The build that views read."""
        [(build,)] = self.site.tally.rows("SELECT build FROM tally.live_builds WHERE cluster = ''")
        return int(build)

    def expect_views_to_be_true(self) -> None:
        """After all that was sent is counted: nothing may differ."""
        self.stream.flush()
        self.site.settle(self.live())
        self.site.expect(1, FAMILY, self.stream)


@pytest.fixture(params=BROKERS_OF_LONG_FORMS)
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    """Two workers that have counted the past, and a stream that goes on."""
    if request.param == "kafka":
        require_kafka()
    config = tmp_path / "tally.toml"
    config.write_text(CONFIG)
    with fresh_site(request.param, tmp_path) as site:
        site.tally.settings = {"TALLY_CONFIG": str(config)}
        stream = Stream(site.kafka, FAMILY, seed=1)
        now_ms = int(time.time() * 1000)
        ends = write_past(site, FAMILY, stream, now_ms=now_ms, days=DAYS, rules=RULES)
        with stream:
            made = Running(site, stream, ends)
            for _ in range(2):
                made.start_worker()
            site.wait_shared(made.workers)
            yield made
