"""A web that is there before its servers, workers that flush seldom, outages, and tokens."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.integration.producer.reading import rows
from tests.kit.door import Door
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import free_port, wait_until
from tests.kit.tally import RunningTally, start_worker
from tests.kit.web import Web

SETTINGS = {
    "TALLY_PARTITIONS": "2",
    # So seldom that whatever is seen was asked for.
    "TALLY_FLUSH_INTERVAL_S": "3600",
    "TALLY_CHECKPOINT_INTERVAL_S": "3600",
    "TALLY_HEARTBEAT_INTERVAL_S": "3600",
    "TALLY_CACHE_AGE_S": "1",
}
LIKES = "/api/v1/counters/likes:x"


@dataclass
class Site:
    """Servers that are started one by one."""

    folder: Path
    broker: EmbeddedLog
    door: Door
    tally: RunningTally
    web: Web


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("apart")
    broker = EmbeddedLog(folder / "log", port=free_port())
    door = Door(folder, port=free_port())
    tally = RunningTally(broker.bootstrap, door.url, door=door, settings=SETTINGS)
    try:
        with Web(tally.env, folder / "web.txt") as web:
            yield Site(folder, broker, door, tally, web)
    finally:
        for worker in tally.workers:
            worker.kill()
        door.kill()
        broker.kill()


def test_a_web_that_began_first_says_what_is_away_and_comes_up_by_itself(site: Site) -> None:
    client = site.web.client
    for answer in (
        client.get(LIKES),
        client.get(f"{LIKES}/exact"),
        client.get("/api/v1/families/likes/top"),
        client.post(f"{LIKES}/increment"),
        client.get("/health"),
    ):
        assert answer.status_code == 503, answer.text
        told = answer.json()
        assert "is it up?" in (told.get("error") or told["problems"][0]), told
    live = client.get(f"{LIKES}/live", params={"wait": 0.2})
    assert live.status_code == 503
    site.broker.start()
    site.door.start()
    site.tally.workers.append(start_worker(site.tally, site.folder / "worker.txt"))
    wait_until(lambda: client.post(f"{LIKES}/increment").status_code == 200, "a write", poll_s=0.2)
    answer = client.get(f"{LIKES}/live").json()
    assert (answer["total"], answer["complete"]) == (1, True)
    assert "Traceback" not in site.web.process.output()


def test_live_sees_an_increment_at_once_although_flushes_are_far_apart(site: Site) -> None:
    client = site.web.client
    receipt = client.post("/api/v1/counters/live:x/increment", json={"delta": 5}).json()["receipt"]
    assert client.get("/api/v1/counters/live:x/exact").json()["total"] == 0
    began_s = time.monotonic()
    answer = client.get("/api/v1/counters/live:x/live").json()
    took_s = time.monotonic() - began_s
    assert (answer["total"], answer["complete"], answer["mode"]) == (5, True, "live")
    assert took_s < 20, took_s
    after = {"after": receipt, "wait": 0}
    assert client.get("/api/v1/counters/live:x/exact", params=after).json()["total"] == 5


def test_reads_while_clickhouse_is_killed_and_started_again_are_never_silently_wrong(
    site: Site,
) -> None:
    client = site.web.client
    before = client.get(f"{LIKES}/live").json()["total"]

    def is_cached() -> bool:
        found = client.get(LIKES).json()
        return (found["total"], found["complete"]) == (before, True)

    wait_until(is_cached, "the total is cached")
    site.door.kill()
    sent = client.post(f"{LIKES}/increment", json={"delta": 3})
    assert sent.status_code == 200
    time.sleep(1.1)

    def is_told_away() -> bool:
        late = client.get(LIKES).json()
        assert (late["total"], late["complete"]) == (before, False)
        [remark] = late["remarks"]
        # Nobody waits long for a refused connection: until it is known, ClickHouse is slow.
        assert remark.endswith(": this is what was known last")
        return str(remark).startswith("ClickHouse does not answer: ")

    wait_until(is_told_away, "the remark that ClickHouse does not answer")
    has_seen_no_more = client.get(LIKES, headers={"Tally-Session": "0:0"}).json()
    assert (has_seen_no_more["total"], has_seen_no_more["complete"]) == (before, False)
    has_seen_more = {"Tally-Session": "0:1000000"}
    for path, headers in [
        (f"{LIKES}/exact", {}),
        (LIKES, has_seen_more),
        ("/api/v1/counters/never:asked", {}),
        ("/api/v1/families/likes/top", {}),
    ]:
        answer = client.get(path, headers=headers)
        assert (answer.status_code, "\n" in answer.text) == (503, False), answer.text
    site.door.start()

    def is_whole() -> bool:
        found = client.get(f"{LIKES}/live").json()
        return bool(found.get("complete")) and bool(found["total"] == before + 3)

    wait_until(is_whole, "live is whole again", timeout_s=60, poll_s=0.5)
    assert client.get(LIKES, params={"after": sent.json()["receipt"]}).json()["total"] == before + 3


def written(site: Site) -> int:
    """How much the log has of the families that are written to; other records come at any time."""
    return sum(1 for name in ("likes", "views") for _ in rows(site.tally.kafka, name))


def test_what_is_refused_writes_nothing_and_no_secret_is_logged(site: Site) -> None:
    file = site.folder / "tokens.toml"
    made = ["--file", str(file)]
    tokens = {
        name: site.tally.json("token", "add", name, *rights, *made)["token"]
        for name, rights in {
            "writer": ["--write", "likes"],
            "reader": ["--read", "likes"],
            "slow": ["--write", "likes", "--rate", "1"],
        }.items()
    }
    env = {**site.tally.env, "TALLY_TOKENS": str(file)}
    with Web(env, site.folder / "web-tokens.txt") as web:

        def post(path: str, token: str | None, content: bytes = b"{}") -> httpx.Response:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return web.client.post(path, headers=headers, content=content)

        wait_until(
            lambda: post(f"{LIKES}/increment", tokens["writer"]).status_code == 200, "a write"
        )
        before, taken = written(site), 0
        while (too_fast := post(f"{LIKES}/increment", tokens["slow"])).status_code == 200:
            taken += 1
        views, bulk = "/api/v1/counters/views:x/increment", "/api/v1/increments"
        mixed = b'{"counter":"likes:x"}\n{"counter":"views:x"}\n'
        wrong = "tally_" + "x" * 43
        for answer, status in [
            (post(f"{LIKES}/increment", None), 401),
            (post(f"{LIKES}/increment", wrong), 401),
            (post(f"{LIKES}/increment", "not a token"), 401),
            (post(f"{LIKES}/increment", tokens["reader"]), 403),
            (post(views, tokens["writer"]), 403),
            (post(bulk, tokens["writer"], mixed), 403),
            (post(bulk, tokens["reader"], mixed), 403),
            (post(bulk, None, mixed), 401),
            (post(f"{LIKES}/increment", tokens["writer"], b" " * (17 << 10)), 413),
            (post(bulk, tokens["writer"], b" " * (17 << 20)), 413),
            (too_fast, 429),
            (post(f"{LIKES}/shards", tokens["writer"], b'{"n":2}'), 403),
            (web.client.get(LIKES), 401),
            (web.client.get("/api/v1/status"), 401),
            (web.client.get("/metrics"), 401),
        ]:
            assert answer.status_code == status, answer.text
            assert len(json.loads(answer.text)["error"].splitlines()) == 1
        assert written(site) == before + taken
        reader = {"Authorization": f"Bearer {tokens['reader']}"}
        answer = web.client.get(LIKES, headers=reader)
        assert (answer.status_code, answer.headers["cache-control"][:7]) == (200, "private")
        output = web.process.output()
    assert not any(token in output for token in (*tokens.values(), wrong))


@pytest.mark.parametrize("address", ["0.0.0.0:{port}", "[::]:{port}", "tally.example:{port}"])
def test_an_address_that_others_reach_is_refused_without_tokens(site: Site, address: str) -> None:
    served = address.format(port=free_port())
    tally = RunningTally(site.tally.kafka, site.tally.clickhouse, settings={"TALLY_WEB": served})
    done = tally.run("serve", code=1)
    assert done.stderr.count("\n") == 1
    assert f"{served} can be reached by others, and there are no tokens" in done.stderr
    assert done.stdout == ""
