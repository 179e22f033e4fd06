"""A leader's passes of the trends on a real log and a real ClickHouse, and commands that read."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from pipeline import topics
from pipeline.cli import run
from pipeline.clock import SystemClock
from pipeline.rules import CountingRules, FamilyRules, TrendRules
from pipeline.trends.leaders_pass import score_trends_with
from pipeline.trends.scoring import TrendsScored
from schemas.addresses import ClickHouseAddress, KafkaAddress
from schemas.settings import Settings
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import MINUTE_S, REPLICA, Cell, Site
from tests.kit.embedded import EmbeddedLog
from tests.kit.tables import empty_tables

W_S = 1_773_144_000  # 2026-03-10 12:00
NEXT_S = W_S + MINUTE_S
SHARDS = 2
STEADY_MINUTES = 100
REGIONS = ("eu", "us")
USUAL = {f"usual-{number}": 20 for number in range(12)}
RULES = CountingRules(3, FamilyRules(trends=TrendRules(min_count=50, min_uniques=0)))


class Leader:
    """It scores when it is told to; log time is what `over` says."""

    def __init__(self, site: Site, settings: Settings) -> None:
        self.site = site
        self.settings = settings
        self._score = score_trends_with(settings, SystemClock())

    @property
    def env(self) -> dict[str, str]:
        return {
            "TALLY_KAFKA": str(self.settings.kafka),
            "TALLY_CLICKHOUSE": self.settings.clickhouse.url,
        }

    def score(self, rules: CountingRules = RULES) -> TrendsScored:
        return self._score(rules)

    def count(self, minutes: dict[int, dict[str, int]]) -> None:
        """Cells of some minutes, a shard and a region to each."""
        self.site.flush(
            [
                (Cell(f"tag:{name}", region, window_s, window_s, shard), count, 0)
                for window_s, counts in minutes.items()
                for name, count in counts.items()
                for shard, region in enumerate(REGIONS)
            ]
        )

    def over(self, window_s: int) -> None:
        """Every shard was flushed just now, with a log time past a minute and the one after it."""
        log_time = datetime.fromtimestamp(window_s + 2 * MINUTE_S, UTC)
        rows = [
            [self.site.build, REPLICA, shard, 1, log_time, datetime.now(UTC)]
            for shard in range(SHARDS)
        ]
        names = ["build", "replica", "shard", "flushed_through", "log_time", "flushed_at"]
        self.site.client.insert("tally.positions", rows, column_names=names)

    def burst(self) -> None:
        """A counter that nobody knew, in the minute after W, which is over."""
        self.count({NEXT_S: {**USUAL, "burst": 300}})
        self.over(NEXT_S)

    def apply(self, rules: CountingRules) -> None:
        """The rules as `tally rules apply` remembers them in ClickHouse."""
        row = [rules.version, rules.bytes.decode(), datetime.now(UTC)]
        names = ["version", "document", "applied_at"]
        self.site.client.insert("tally.rules", [row], column_names=names)

    def told(self, count: int) -> list[Message]:
        """The events on the topic, which must be so many."""
        settings = {
            "bootstrap.servers": self.settings.kafka,
            "group.id": "reads",
            "log_level": 0,
        }
        place = TopicPartition(topics.TRENDS, 0, 0)
        with closing(Consumer(settings)) as consumer:
            assert consumer.get_watermark_offsets(place, timeout=10) == (0, count)
            consumer.assign([place])
            return consumer.consume(count, timeout=20) if count else []


@contextmanager
def leader_on(door: ClickHouse, folder: Path) -> Iterator[Leader]:
    """Minutes of a steady stream up to W, which is over but not scored yet."""
    log = EmbeddedLog(folder)
    log.start()
    client = clickhouse_connect.get_client(
        host=door.host, port=door.port, autogenerate_session_id=False, dedicated_pool=True
    )
    try:
        topics.ensure_topics(KafkaAddress(log.bootstrap), 1, SHARDS)
        empty_tables(client)
        url = f"http://{door.host}:{door.port}"
        made = Leader(
            Site(client),
            Settings(
                kafka=KafkaAddress(log.bootstrap),
                clickhouse=ClickHouseAddress(url),
                build=1,
                config=None,
            ),
        )
        made.count({W_S - age * MINUTE_S: USUAL for age in range(STEADY_MINUTES)})
        made.over(W_S)
        yield made
    finally:
        client.close()
        log.kill()


class Trending:
    """`tally trending` run in this process, which is quicker; what it prints is taken."""

    def __init__(
        self,
        leader: Leader,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self._capsys = capsys
        for name, value in leader.env.items():
            monkeypatch.setenv(name, value)

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        self._capsys.readouterr()
        assert run(["trending", *arguments]) == code
        printed = self._capsys.readouterr()
        return printed.out, printed.err

    def json(self, *arguments: str) -> Any:
        out, err = self.run(*arguments, "--json")
        assert (err, out.count("\n")) == ("", 1)
        return json.loads(out)
