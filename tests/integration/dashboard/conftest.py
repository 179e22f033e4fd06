"""One Tally, one web process and one browser for all tests of the dashboard."""

import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from pipeline import topics
from tests.kit.chromium import Browser, chromium, required, why_no_chromium
from tests.kit.embedded import EmbeddedLog
from tests.kit.tally import RunningTally, tally_on
from tests.kit.web import Web

SETTINGS = {
    "TALLY_PARTITIONS": "2",
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "0.5",
    "TALLY_HEARTBEAT_INTERVAL_S": "0.5",
    "TALLY_ROLLUP_INTERVAL_S": "0.5",
    "TALLY_CACHE_AGE_S": "0.2",
}
HOSTILE = [
    "likes:<script>alert(1)</script>",
    'likes:"><img src=x onerror="window.hurt = 1">',
]
LIKES: list[Mapping[str, object]] = [
    *[{"counter": "likes:post-1", "region": "eu", "member": f"m{n}"} for n in range(30)],
    *[{"counter": "likes:post-1", "region": "us"}] * 12,
    *[{"counter": "likes:post-2", "delta": 7}] * 3,
    *[{"counter": name, "delta": 5, "region": '<b onclick="x">'} for name in HOSTILE],
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    required(why_no_chromium())
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def tally(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    """With counts of likes; without a browser nothing is started."""
    folder = tmp_path_factory.mktemp("dashboard")
    broker = EmbeddedLog(folder / "log")
    broker.start()
    try:
        with tally_on(broker, folder, settings=SETTINGS) as running:
            produce(running, *LIKES)
            _send_refused(running.kafka)
            running.wait_for(
                "SELECT total FROM tally.totals WHERE counter = 'likes:post-1'", [(42,)]
            )
            yield running
    finally:
        broker.kill()


@pytest.fixture(scope="session")
def web(tally: RunningTally, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tally.env, tmp_path_factory.mktemp("web") / "web.txt") as served:
        yield served


def _send_refused(bootstrap: str) -> None:
    """Two records that become dead letters; no producer of ours would send them."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in (b'{"counter": 7}', b'{"counter": "<img src=x onerror=alert(1)>"}'):
        producer.produce(topics.INCREMENTS, value)
    assert producer.flush(20) == 0


def produce(tally: RunningTally, *events: Mapping[str, object]) -> None:
    tally.run("produce", "-", stdin="".join(json.dumps(event) + "\n" for event in events))


def counter_url(web: Web, counter: str) -> str:
    return f"{web.url}/#/counter/{quote(counter, safe='')}"
