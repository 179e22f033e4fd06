"""A log that was accepted in place of the one that was counted is counted anew and compared."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.part import write_skew
from tests.integration.builds.conftest import CONFIG, FAMILY, REPLAY_TIMEOUT_S, RULES
from tests.integration.builds.past import DAY_MS, write_past
from tests.integration.worker.events import PARTITIONS
from tests.integration.worker.offsets import log_ends
from tests.integration.worker.site import QUICK, Site, Worker, make_topic_anew, site_on, trim
from tests.integration.worker.stream import Sender
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process
from tests.kit.tally import TALLY

pytestmark = pytest.mark.timeout(600)

LIVE, NEW = 1, 2
BEFORE_DAYS, SINCE_DAYS = 1, 4
OTHER_IDS = 1_000
LOST_HOURS = 5


class Past:
    """A Tally whose log lives some days behind, until `end`."""

    def __init__(self, site: Site, skew: Path) -> None:
        self.site = site
        self.sender = Sender(site.kafka)
        self.now_ms = int(time.time() * 1000)
        self._skew = skew
        write_skew(skew, -SINCE_DAYS * 86_400)

    def end(self) -> None:
        """From now on the log lives today."""
        write_skew(self._skew, 0)

    def count(self) -> None:
        """By a worker that then is stopped."""
        self._write(self.now_ms - SINCE_DAYS * DAY_MS, BEFORE_DAYS, 0)
        worker = self.site.start_worker(LIVE)
        worker.wait_ready()
        self.site.settle(LIVE)
        self.site.stop([worker])

    def write_on(self) -> list[list[int]]:
        """The days that came since; returns how much each partition got by every hour."""
        self.sender.connect()
        return self._write(self.now_ms, SINCE_DAYS, OTHER_IDS)

    def _write(self, now_ms: int, days: int, seed: int) -> list[list[int]]:
        how = {"now_ms": now_ms, "days": days, "seed": seed}
        return write_past(self.site, FAMILY, self.sender, **how, rules=RULES)


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    config, skew = tmp_path / "tally.toml", tmp_path / "log.skew"
    config.write_text(CONFIG)
    write_skew(skew, 0)
    program = (sys.executable, "-m", "tests.chaos.part", str(skew), "0", "pipeline.embedded.log")
    with site_on(EmbeddedLog(tmp_path / "log", program=program), tmp_path) as site:
        site.tally.settings = {"TALLY_CONFIG": str(config)}
        yield Past(site, skew)


def test_a_log_that_was_made_anew_is_compared_with_what_was_counted_of_it(past: Past) -> None:
    site = past.site
    past.count()
    counted = log_ends(site.kafka)
    make_topic_anew(site.kafka)
    past.end()
    past.write_on()
    assert all(new > old for new, old in zip(log_ends(site.kafka), counted, strict=True))
    refused = site.tally.run("replay", "--new", code=1)
    assert "younger records" in refused.stderr
    accept(site, "other")

    with follower(site):
        site.settle(LIVE)
        site.expect(LIVE, FAMILY, past.sender)
        replay(site)
        site.expect(LIVE, FAMILY, past.sender)  # as views have it, which read the new build
        verify(site)


def test_a_log_that_was_trimmed_too_far_is_compared_with_what_was_counted_of_it(past: Past) -> None:
    site = past.site
    past.count()
    counted = log_ends(site.kafka)
    past.end()
    since = past.write_on()
    trim(site.kafka, [at + lost for at, lost in zip(counted, since[LOST_HOURS], strict=True)])
    accept(site, "trimmed")

    with follower(site):
        site.settle(LIVE)
        replay(site)
        verify(site)


@contextmanager
def follower(site: Site) -> Iterator[None]:
    """A worker that counts whichever build is live."""
    env, path = {**site.tally.env, **QUICK}, site.folder / "follower.txt"
    with Worker([*TALLY, "worker"], output_path=path, env=env) as worker:
        worker.wait_ready()
        yield


def accept(site: Site, kind: str) -> None:
    found = site.tally.json("accept-log")["accepted"]
    assert [(one["shard"], one["incarnation"], one["log"]) for one in found] == [
        (shard, 1, kind) for shard in range(PARTITIONS)
    ]


def replay(site: Site) -> None:
    """Count it anew, with no difference, and take that."""
    env = {**site.tally.env, **QUICK}
    command = [*TALLY, "replay", "--check", "--swap", "--json"]
    with Process(command, output_path=site.folder / "replay.txt", env=env) as process:
        assert process.wait(timeout_s=REPLAY_TIMEOUT_S) == 0, process.output()
        found = json.loads(process.output().splitlines()[-1])
    assert found["build"] == NEW
    assert found["swapped"]
    assert found["counts_from_ms"] > 0
    check = found["check"]
    assert not check["differs"]
    minutes = next(one for one in check["tables"] if one["table"] == "cells_1m")
    assert minutes["compared"] > 0
    assert site.tally.rows(f"SELECT DISTINCT replica FROM tally.positions WHERE build = {NEW}") == [
        ("main~1",)
    ]


def verify(site: Site) -> None:
    """What the new build has is what the log has."""
    found = site.tally.json("verify", "--log")
    assert found["build"] == NEW
    assert not found["differences"], found
