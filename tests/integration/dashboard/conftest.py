"""One Tally, one web process and one browser for all tests of the dashboard.

Its log has a past: hashtags that were quiet, then burst. Workers counted it and scored its minutes
as they do any others; only the log's clock was behind when it was written.
"""

import json
import time
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from pipeline import topics
from schemas.addresses import KafkaAddress
from tests.kit.chromium import Browser, chromium, required, why_no_chromium
from tests.kit.past import PastLog
from tests.kit.tally import RunningTally, tally_on
from tests.kit.web import Web

MINUTE_S = 60
PARTITIONS = 2
SETTINGS = {
    "TALLY_PARTITIONS": str(PARTITIONS),
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "0.5",
    "TALLY_HEARTBEAT_INTERVAL_S": "0.5",
    "TALLY_ROLLUP_INTERVAL_S": "2",
    "TALLY_TRENDS_INTERVAL_S": "2",
    "TALLY_CACHE_AGE_S": "0.2",
}
RULES = """
[families.visits]
kind = "sketched"
"""
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

VISITS: list[Mapping[str, object]] = [
    *[{"counter": "visits:home", "member": f"m{n}"} for n in range(40)],
    *[{"counter": "visits:about", "delta": 3}] * 5,
]


def used(hashtag: str, times: int) -> list[Mapping[str, object]]:
    """A hashtag, used by as many members in two regions."""
    name = f"hashtag:#{hashtag}"
    return [
        {"counter": name, "member": f"m{n}", "region": ("eu", "us")[n % 2]} for n in range(times)
    ]


def behind_s(minutes: int) -> float:
    """So far behind, or less than a minute nearer, that a minute of the log is 20 s old.

    What is sent then is of one minute, although sending takes a while: half a burst in the next one
    would have others come and go, and in another order.
    """
    return minutes * MINUTE_S - (20 - time.time()) % MINUTE_S


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    required(why_no_chromium())
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def tally(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    """With counts of likes; without a browser nothing is started."""
    folder = tmp_path_factory.mktemp("dashboard")
    rules = folder / "tally.toml"
    rules.write_text(RULES)
    log = PastLog(folder / "log", behind_s=behind_s(100))
    log.start()
    try:
        topics.ensure_topics(KafkaAddress(log.bootstrap), 1, PARTITIONS)
        send(log.bootstrap, *used("rises", 4), *used("calm", 4))
        log.catch_up(behind_s(9))
        with tally_on(log, folder, settings={**SETTINGS, "TALLY_CONFIG": str(rules)}) as running:
            running.wait_for("SELECT count() > 0 FROM tally.trend_windows", [(1,)])
            log.catch_up(behind_s(8))
            send(log.bootstrap, *used("went", 200))
            log.catch_up(behind_s(6))
            send(log.bootstrap, *({**one, "delta": -1} for one in used("went", 200)))
            log.catch_up(behind_s(5))
            send(log.bootstrap, *used("rises", 300), *used("fresh", 200))
            log.catch_up(0)
            produce(running, *LIKES, *VISITS)
            _send_refused(running.kafka)
            running.wait_for(
                "SELECT total FROM tally.totals WHERE counter = 'likes:post-1'", [(42,)]
            )
            running.wait_for(
                "SELECT counter FROM tally.trending WHERE family = 'hashtag' AND region = '*' "
                "AND kind != 'top' ORDER BY counter",
                [("hashtag:#fresh",), ("hashtag:#rises",)],
                timeout_s=120,
            )
            yield running
    finally:
        log.kill()


@pytest.fixture(scope="package")
def web(tally: RunningTally, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tally.env, tmp_path_factory.mktemp("web") / "web.txt") as served:
        yield served


def _send_refused(bootstrap: str) -> None:
    """Two records that become dead letters; no producer of ours would send them."""
    send(bootstrap, {"counter": 7}, {"counter": "<img src=x onerror=alert(1)>"})


def send(bootstrap: str, *events: Mapping[str, object]) -> None:
    """As foreign producers do, without Tally's; returns when the log has them."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for event in events:
        producer.produce(topics.INCREMENTS, json.dumps(event))
    assert producer.flush(20) == 0


def produce(tally: RunningTally, *events: Mapping[str, object]) -> None:
    tally.run("produce", "-", stdin="".join(json.dumps(event) + "\n" for event in events))


def counter_url(web: Web, counter: str) -> str:
    return f"{web.url}/#/counter/{quote(counter, safe='')}"
