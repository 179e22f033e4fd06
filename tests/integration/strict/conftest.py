"""Strict counters on real processes: a broker, a ClickHouse, two workers and a web process."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import BROKERS_OF_LONG_FORMS, RealKafka, require_kafka
from tests.kit.processes import Process
from tests.kit.tally import RunningTally, start_worker, tally_on
from tests.kit.waiting import eventually
from tests.kit.web import Web

RULES = """
[families.stock]
kind = "strict"
strict = { ids_kept = 5000 }

[families.quota]
kind = "strict"
strict = { window = "sliding", limit = 5, per = "1h" }

[families.likes]
"""
SETTINGS = {
    "TALLY_PARTITIONS": "2",
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    "TALLY_ROLLUP_INTERVAL_S": "3600",
    "TALLY_TRENDS_INTERVAL_S": "3600",
    "TALLY_STRICT_WAIT_S": "3",
}


@dataclass
class Site:
    """What tests of the folder share. They keep apart by counters of their own."""

    tally: RunningTally
    web: Web
    folder: Path
    started: int = field(default=2)

    def ask(self, counter: str, what: str, **fields: Any) -> httpx.Response:
        """One command, asked once."""
        return self.web.client.post(f"/api/v1/counters/{counter}/{what}", json=fields)

    def decided(self, counter: str, what: str, **fields: Any) -> dict[str, Any]:
        """One command, asked with its id until it is answered."""
        answers: list[httpx.Response] = []

        def is_answered() -> bool:
            answers.append(self.ask(counter, what, **fields))
            return answers[-1].status_code not in {503, 504}

        eventually(is_answered, f"an answer to {what} {counter}")
        assert answers[-1].status_code == 200, answers[-1].text
        found: dict[str, Any] = answers[-1].json()
        return found

    def start_worker(self) -> Process:
        """One more worker, which is ended with the others."""
        self.started += 1
        worker = start_worker(self.tally, self.folder / f"worker-{self.started}.txt")
        self.tally.workers.append(worker)
        return worker


@pytest.fixture(scope="package", params=BROKERS_OF_LONG_FORMS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    if request.param == "kafka":
        require_kafka()
    folder = tmp_path_factory.mktemp(f"strict-{request.param}")
    broker: Broker
    if request.param == "kafka":
        broker = RealKafka(folder / "broker")
    else:
        broker = EmbeddedLog(folder / "broker")
    broker.start()
    config = folder / "tally.toml"
    config.write_text(RULES)
    settings = {**SETTINGS, "TALLY_CONFIG": str(config)}
    try:
        with (
            tally_on(broker, folder, workers=2, settings=settings) as tally,
            Web(tally.env, folder / "web.txt") as web,
        ):
            yield Site(tally, web, folder)
    finally:
        broker.kill()
