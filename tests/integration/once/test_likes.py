"""Likes and unlikes with repeats through real workers that are killed: as many as a set has."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import BadInputError
from pipeline.producer import Producer
from tests.integration.once.likes import Like, Likes
from tests.integration.worker.site import QUICK, Site, Worker, fresh_site
from tests.kit.kafka import BROKERS_OF_LONG_FORMS, require_kafka
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY
from tests.kit.web import Web

pytestmark = pytest.mark.timeout(900)

CONFIG = """
[families.likes]
once_per = "member"

[families.hearts]
once_per = "member"

[families.seen]
once_per = "member"
once_per_error = 0.01
"""
REPLAY_TIMEOUT_S = 300
REPEATS = (
    "SELECT counter, toInt64(sum(d)) FROM (SELECT counter, max(duplicates) AS d "
    "FROM tally.cells_1m WHERE build = 1 AND startsWith(counter, 'likes:') "
    "GROUP BY counter, region, window, slot, replica, shard) "
    "GROUP BY counter HAVING sum(d) > 0"
)
BY_REGION = (
    "SELECT counter, region, toInt64(sum(count)) FROM tally.counts_by_region_1m "
    "WHERE startsWith(counter, 'likes:') GROUP BY counter, region"
)
SEEN = (
    "SELECT toInt64(sum(p) - sum(n)), toInt64(sum(d)) FROM (SELECT max(p) AS p, max(n) AS n, "
    "max(duplicates) AS d FROM tally.cells_1m WHERE build = 1 AND counter = 'seen:page' "
    "GROUP BY counter, region, window, slot, replica, shard)"
)
TOTALS = "SELECT counter, toInt64(net) FROM tally.totals WHERE startsWith(counter, 'likes:')"


@dataclass
class Liked:
    """A Tally whose family `likes` counts once per member."""

    site: Site
    workers: list[Worker] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return {**self.site.tally.env, **QUICK}

    def start_worker(self) -> None:
        path = self.site.folder / f"likes-{len(self.site.workers)}.txt"
        worker = Worker([*TALLY, "worker"], output_path=path, env=self.env)
        self.site.workers.append(worker)
        self.workers.append(worker)

    def kill_one(self, chance: random.Random) -> None:
        """Somebody else takes its place."""
        self.workers.pop(chance.randrange(len(self.workers))).kill()
        self.start_worker()

    def expect(self, likes: Likes) -> None:
        """Every total, region and repeat is as the truth has it."""
        tally, expected = self.site.tally, likes.expected()
        self.site.settle(1)
        assert dict(tally.rows(TOTALS)) == expected
        by_region = {(counter, region): count for counter, region, count in tally.rows(BY_REGION)}
        for place in {*by_region, *likes.by_region}:
            assert by_region.get(place, 0) == likes.by_region[place], place
        assert dict(tally.rows(REPEATS)) == likes.repeats

    def replay(self) -> Process:
        """`tally replay --check`, as people run it."""
        path = self.site.folder / "replay.txt"
        return Process([*TALLY, "replay", "--check"], output_path=path, env=self.env)


@pytest.fixture(params=BROKERS_OF_LONG_FORMS)
def liked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Liked]:
    """Two workers that share the partitions."""
    if request.param == "kafka":
        require_kafka()
    config = tmp_path / "tally.toml"
    config.write_text(CONFIG)
    with fresh_site(request.param, tmp_path) as site:
        site.tally.settings = {"TALLY_CONFIG": str(config)}
        made = Liked(site)
        for _ in range(2):
            made.start_worker()
        site.wait_shared(made.workers)
        yield made


def send(producer: Producer, likes: list[Like]) -> None:
    names = ("counter", "delta", "member", "region")
    producer.increment_many({name: [like[name] for like in likes] for name in names})
    assert producer.flush(60)


def like_and_kill(liked: Liked, likes: Likes, *, rows: int, at_once: int, kills: int) -> None:
    chance = random.Random(likes.seed)
    rounds = rows // at_once
    deaths = set(chance.sample(range(1, rounds), kills))
    with Producer(liked.site.kafka) as producer:
        for turn in range(rounds):
            if turn in deaths:
                liked.kill_one(chance)
            send(producer, likes.next(at_once))
            send(producer, likes.seen(at_once // 10))
            if turn % 10 == 5:  # Some come as lines, which are sent otherwise.
                lines = "".join(json.dumps(like) + "\n" for like in likes.next(200))
                liked.site.tally.run("produce", "-", stdin=lines)


def like_over_http(liked: Liked) -> None:
    """Somebody clicks three times; what cannot count is refused, and nothing of it is written."""
    with Web(liked.env, liked.site.folder / "web.txt") as web:
        path = "/api/v1/counters/hearts:post/increment"
        for _ in range(3):
            assert web.client.post(path, json={"member": "ann"}).status_code == 200
        answer = web.client.post(path, json={})
        assert answer.status_code == 422
        assert "member: missing" in answer.text
        body = "".join(
            json.dumps({"counter": "hearts:post", **fields}) + "\n"
            for fields in ({"member": "bob"}, {"member": "bob", "delta": 2}, {"member": "ann"})
        )
        sent = web.client.post("/api/v1/increments", content=body).json()
        assert (sent["accepted"], sent["refused"]) == (2, 1)
        assert "delta: neither 1 nor -1" in sent["reasons"][0]["reason"]
        wait_until(lambda: live(web)["complete"], "the workers are back", timeout_s=60)
        assert live(web)["total"] == 2


def live(web: Web) -> Any:
    return web.client.get("/api/v1/counters/hearts:post/live").json()


def check(liked: Liked, likes: Likes) -> None:
    """The counts, and that a rebuild has the same."""
    liked.site.wait_shared(liked.workers)
    liked.expect(likes)
    total, repeats = liked.site.tally.rows(SEEN)[0]
    assert total + repeats == likes.sent
    expected = len(likes.saw)
    assert expected - 0.01 * expected - 3 * (0.01 * expected) ** 0.5 <= total <= expected
    with liked.replay() as replay:
        assert replay.wait(timeout_s=REPLAY_TIMEOUT_S) == 0, replay.output()
        assert "agree" in replay.output()


def test_likes_with_repeats_are_as_many_as_a_set_has_though_workers_die(liked: Liked) -> None:
    likes = Likes(seed=random.SystemRandom().randrange(1 << 32), posts=50, people=300)
    print(f"seed {likes.seed}")
    like_and_kill(liked, likes, rows=20_000, at_once=500, kills=2)
    with Producer(liked.site.kafka) as producer:
        with pytest.raises(BadInputError, match="member: missing"):
            producer.increment("likes:post-1")
        with pytest.raises(BadInputError, match=r"row 1: delta: neither 1 nor -1"):
            producer.increment_many(
                {"counter": ["likes:post-1"] * 2, "delta": [1, 2], "member": ["a", "b"]}
            )
    liked.site.tally.run("produce", "-", stdin='{"counter":"likes:post-1"}\n')
    like_over_http(liked)
    check(liked, likes)
    letters = liked.site.tally.json("dead-letters")
    assert "once per member" in json.dumps(letters)
    explained = liked.site.tally.json("explain", "likes:post-1")
    assert str(likes.repeats["likes:post-1"]) in json.dumps(explained)


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_a_million_likes_with_repeats_are_as_many_as_a_set_has(liked: Liked) -> None:
    likes = Likes(seed=random.SystemRandom().randrange(1 << 32), posts=400, people=20_000)
    print(f"seed {likes.seed}")
    like_and_kill(liked, likes, rows=1_000_000, at_once=5_000, kills=12)
    check(liked, likes)
