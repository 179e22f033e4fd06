"""Trends from cells to the topic and to `tally trending`: what is told is what is shown."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from pipeline import topics
from pipeline.cli import run
from pipeline.clock import SystemClock
from pipeline.rules import CountingRules, FamilyRules, TrendRules
from pipeline.trends.leaders_pass import score_trends_with
from pipeline.trends.scoring import TrendsScored
from schemas.settings import load_settings
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import MINUTE_S, Cell, Site
from tests.kit.embedded import EmbeddedLog

W_S = 1_773_144_000  # 2026-03-10 12:00
NEXT_S = W_S + MINUTE_S
SHARDS = 2
STEADY_MINUTES = 100
REGIONS = ("eu", "us")
USUAL = {f"usual-{number}": 20 for number in range(12)}
RULES = CountingRules(3, FamilyRules(trends=TrendRules(min_count=50, min_uniques=0)))


class Leader:
    """A leader's passes on a real log and a real ClickHouse, and the commands people use."""

    def __init__(self, site: Site, kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.site = site
        self.kafka = kafka
        self._capsys = capsys
        self._score = score_trends_with(load_settings(), SystemClock())

    def score(self, rules: CountingRules = RULES) -> TrendsScored:
        return self._score(rules)

    def count(self, window_s: int, counts: dict[str, int]) -> None:
        """Cells of one minute, a shard and a region to each."""
        self.site.flush(
            [
                (Cell(f"tag:{name}", region, window_s, window_s, shard), count, 0)
                for name, count in counts.items()
                for shard, region in enumerate(REGIONS)
            ]
        )

    def over(self, window_s: int) -> None:
        """Every shard's log time is past a minute and the one after it."""
        self.site.flush_positions(dict.fromkeys(range(SHARDS), window_s + 2 * MINUTE_S))

    def apply(self, rules: CountingRules) -> None:
        """The rules as `tally rules apply` remembers them in ClickHouse."""
        row = [rules.version, rules.bytes.decode(), datetime.now(UTC)]
        names = ["version", "document", "applied_at"]
        self.site.client.insert("tally.rules", [row], column_names=names)

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        self._capsys.readouterr()
        assert run(["trending", *arguments]) == code
        printed = self._capsys.readouterr()
        return printed.out, printed.err

    def json(self, *arguments: str) -> Any:
        out, err = self.run(*arguments, "--json")
        assert (err, out.count("\n")) == ("", 1)
        return json.loads(out)

    def told(self, count: int) -> list[Message]:
        """The events on the topic, which must be so many."""
        settings = {"bootstrap.servers": self.kafka, "group.id": "reads", "log_level": 0}
        place = TopicPartition(topics.TRENDS, 0, 0)
        with closing(Consumer(settings)) as consumer:
            assert consumer.get_watermark_offsets(place, timeout=10) == (0, count)
            consumer.assign([place])
            return consumer.consume(count, timeout=20) if count else []


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path_factory.mktemp("log"))
    log.start()
    yield log
    log.stop()


@pytest.fixture
def leader(
    site: Site,
    door: ClickHouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Leader]:
    """Minutes of a steady stream up to W, which is over but not scored yet."""
    log = EmbeddedLog(tmp_path)
    log.start()
    topics.ensure_topics(log.bootstrap, 1, SHARDS)
    monkeypatch.setenv("TALLY_KAFKA", log.bootstrap)
    monkeypatch.setenv("TALLY_CLICKHOUSE", f"http://{door.host}:{door.port}")
    made = Leader(site, log.bootstrap, capsys)
    for age in range(STEADY_MINUTES):
        made.count(W_S - age * MINUTE_S, USUAL)
    made.over(W_S)
    yield made
    log.stop()


def burst(leader: Leader) -> None:
    """A counter that nobody knew, in the minute after W."""
    leader.count(NEXT_S, {**USUAL, "burst": 300})
    leader.over(NEXT_S)
