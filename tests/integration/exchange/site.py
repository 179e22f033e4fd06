"""Clusters that exchange cells, and what both together must show."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import clickhouse_connect

from pipeline.exchange.exchange import Exchange, Passed
from pipeline.exchange.side import Side
from schemas.addresses import ClickHouseAddress
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, Site
from tests.kit.door import Door
from tests.kit.tables import empty_tables

GRAINS = {"1m": MINUTE_S, "1h": HOUR_S, "1d": DAY_S}


@dataclass
class Cluster:
    """One ClickHouse with cells of its own, kept beside their truth in `site`."""

    door: Door
    site: Site
    side: Side

    @classmethod
    def empty(cls, door: Door) -> Self:
        if not door.process.running:
            door.start()
        client = clickhouse_connect.get_client(dsn=door.url, autogenerate_session_id=False)
        if client.command("EXISTS TABLE tally.builds"):
            # Otherwise all tables would be made anew, which takes seconds.
            client.command(
                "ALTER TABLE tally.builds DELETE WHERE declaration > 1 OR cluster != ''",
                settings={"mutations_sync": 1},
            )
        empty_tables(client)
        return cls(door, Site(client), Side(ClickHouseAddress(door.url), "a test"))

    @property
    def identity(self) -> str:
        [(identity,)] = self.site.rows(
            "SELECT toString(identity) FROM tally.identity ORDER BY number DESC LIMIT 1"
        )
        return str(identity)

    def send(self, to: "Cluster", *, check: bool = False, longest_query_s: float = 0) -> Passed:
        """One pass."""
        return Exchange(self.side, to.side, longest_query_s).run(check=check)

    def declare(self, build: int) -> None:
        """Let views read another build of this cluster, as a swap does."""
        self.site.client.command(
            "INSERT INTO tally.builds SELECT '', {build:UInt32}, max(declaration) + 1, now64(3), "
            "'a test' FROM tally.builds WHERE cluster = ''",
            {"build": build},
        )
        self.site = Site(self.site.client, build, self.site.truth)

    def foreign_builds(self) -> list[int]:
        """The builds of others that have any cells here."""
        rows = self.site.rows(
            "SELECT DISTINCT build FROM tally.cells_1m WHERE build >= 2147483648 ORDER BY build"
        )
        return [build for (build,) in rows]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.site.rows(query)


def assert_shows(shown: Cluster, *counted: Cluster) -> None:
    """A cluster's views have what all of these counted, window by window."""
    for grain, seconds in GRAINS.items():
        expected: Counter[tuple[str, str, int]] = Counter()
        for cluster in counted:
            expected.update(cluster.site.truth.windows(seconds))
        assert shown.site.windows(grain) == dict(expected)
    assert_totals(shown, *counted)


def assert_totals(shown: Cluster, *counted: Cluster) -> None:
    expected: Counter[str] = Counter()
    for cluster in counted:
        expected.update(cluster.site.truth.totals())
    assert shown.site.totals() == dict(expected)
