"""One Tally for the folder: an embedded log, a ClickHouse, a worker, and two web processes."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.embedded import EmbeddedLog
from tests.kit.tally import RunningTally, tally_on
from tests.kit.web import Web

SETTINGS = {
    "TALLY_PARTITIONS": "3",
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    "TALLY_HEARTBEAT_INTERVAL_S": "1",
    "TALLY_CACHE_AGE_S": "2",
}


@dataclass
class Site:
    """What tests of the folder share. They keep apart by counters of their own."""

    tally: RunningTally
    webs: list[Web]
    folder: Path

    @property
    def web(self) -> Web:
        return self.webs[0]

    def send(self, counter: str, web: int = 0, **fields: object) -> str:
        """One increment; its receipt."""
        client = self.webs[web].client
        answer = client.post(f"/api/v1/counters/{counter}/increment", json=fields)
        assert answer.status_code == 200, answer.text
        receipt: str = answer.json()["receipt"]
        return receipt


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("web")
    broker = EmbeddedLog(folder / "log")
    broker.start()
    try:
        with tally_on(broker, folder, settings=SETTINGS) as tally, ExitStack() as stack:
            webs = [
                stack.enter_context(Web(tally.env, folder / f"web-{number}.txt"))
                for number in range(2)
            ]
            yield Site(tally, webs, folder)
    finally:
        broker.kill()
