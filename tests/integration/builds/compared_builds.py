"""Two builds of one log, written by hand, for tests that spoil one of them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from clickhouse_connect.driver import Client

from pipeline.builds.comparing.compare import Comparison, Scope, compare
from pipeline.clickhouse import connect
from pipeline.clock import SystemClock
from pipeline.rollup.rollup import Rollup
from schemas.families import Families
from tests.integration.clickhouse.process import ClickHouse
from tests.kit.tables import empty_tables
from tests.kit.waiting import eventually

OLD = 1
SHARDS = 2
OCTOBER, NOVEMBER, JANUARY = date(2025, 10, 1), date(2025, 11, 3), date(2026, 1, 10)
MONDAY, THURSDAY, FRIDAY = date(2026, 3, 16), date(2026, 3, 19), date(2026, 3, 20)
LIKES, SHORT = "likes:a", "short:x"

MUTATIONS = "SELECT count() FROM system.mutations WHERE NOT is_done"

Row = tuple[Any, ...]


def at(day: date, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=UTC)


NOON = at(FRIDAY, 12)

CELLS = "counter, region, window, slot, shard, p, n, duplicates, through"
DISTINCT = "counter, region, window, precision, slot_day, registers"
FREQUENCY = "family, width, bucket, window, region, slot, shard, p, n"
HEAVY = "family, region, slot, shard, through, counters, counts, lost"
LETTERS = "shard, offset, row, log_time, reason, bytes, sample"
ADJUSTMENTS = "counter, id, grain, window, by, who, why, log_time, shard, offset"
REPLICATED = {"cells_1m", "cells_1d", "cells_life", "frequency_1m", "heavy_1m"}

COLUMNS = {
    "cells_1m": CELLS,
    "cells_1d": "counter, region, window, slot_day, shard, p, n, duplicates",
    "cells_life": "counter, region, slot_month, shard, p, n, duplicates",
    "final_days": "grain, slot_day, partitions, confirmed_at",
    "distinct_1m": DISTINCT,
    "distinct_1h": DISTINCT,
    "distinct_1d": DISTINCT,
    "frequency_1m": FREQUENCY,
    "heavy_1m": HEAVY,
    "dead_letters": LETTERS,
    "adjustments": ADJUSTMENTS,
}

ROWS: dict[str, list[Row]] = {
    "cells_1m": [
        (LIKES, "eu", at(MONDAY, 10, 0), at(MONDAY, 10, 0), 0, 5, 1, 0, 10),
        (LIKES, "eu", at(MONDAY, 10, 1), at(MONDAY, 10, 1), 0, 7, 0, 2, 12),
        (LIKES, "", at(MONDAY, 10, 0), at(THURSDAY, 9, 0), 1, 3, 0, 0, 8),
        ("likes:b", "eu", at(THURSDAY, 23, 59), at(THURSDAY, 23, 59), 1, 2, 2, 0, 9),
        ("short:y", "eu", at(JANUARY, 7, 0), at(JANUARY, 7, 0), 0, 9, 0, 0, 2),
        (SHORT, "eu", at(MONDAY, 11, 0), at(MONDAY, 11, 0), 1, 8, 0, 0, 4),
        ("likes:c", "", at(FRIDAY, 9, 0), at(FRIDAY, 9, 0), 0, 4, 0, 0, 20),
        ("likes:c", "", at(FRIDAY, 9, 1), at(FRIDAY, 9, 2), 0, 1, 0, 0, 21),
        (SHORT, "eu", at(FRIDAY, 9, 0), at(FRIDAY, 9, 0), 1, 6, 0, 0, 15),
    ],
    "cells_1d": [(LIKES, "eu", at(NOVEMBER), NOVEMBER, 0, 20, 0, 0)],
    "cells_life": [("short:z", "eu", OCTOBER, 0, 30, 0, 0)],
    "final_days": [("life", OCTOBER, SHARDS, at(NOVEMBER))],
    "distinct_1m": [(LIKES, "eu", at(MONDAY, 10, 0), 12, MONDAY, {1: 2, 5: 1})],
    "distinct_1h": [
        (LIKES, "eu", at(MONDAY, 10, 0), 12, MONDAY, {1: 2, 5: 1, 9: 3}),
        ("likes:b", "eu", at(THURSDAY, 23, 0), 12, THURSDAY, {7: 1}),
    ],
    "distinct_1d": [(LIKES, "eu", at(MONDAY), 12, MONDAY, {1: 2, 5: 1, 9: 3})],
    "frequency_1m": [
        ("views", 8, 3, at(MONDAY, 10, 0), "eu", at(MONDAY, 10, 0), 0, 40, 2),
        ("views", 8, 11, at(MONDAY, 10, 1), "eu", at(MONDAY, 10, 1), 0, 50, 0),
        ("views", 8, 3, at(FRIDAY, 9, 0), "eu", at(FRIDAY, 9, 0), 0, 60, 0),
    ],
    "heavy_1m": [
        ("views", "*", at(MONDAY, 10, 0), 0, 9, ["views:y"], [30], 0),
        ("views", "*", at(MONDAY, 10, 0), 0, 11, ["views:x", "views:y"], [50, 30], 1),
        ("views", "eu", at(FRIDAY, 9, 0), 0, 19, ["views:x"], [60], 0),
    ],
    "dead_letters": [
        (0, 11, 0, at(MONDAY, 10, 1), "delta is 0", 20, "{}"),
        (0, 17, 3, at(FRIDAY, 8, 0), "too late", 30, "{}"),
        (1, 5, 0, at(MONDAY, 12, 0), "no counter", 40, "{}"),
    ],
    "adjustments": [
        (LIKES, "one", "1h", at(MONDAY, 10), -2, "ann", "fraud", at(THURSDAY, 9), 0, 14),
        ("likes:b", "two", "", at(date(1970, 1, 1)), 5, "bob", "import", at(THURSDAY, 9), 1, 7),
    ],
}
"""What both builds have of slots that are over in both. Of October and November nothing finer is
left; the rest is rolled up."""

AHEAD: dict[str, list[Row]] = {
    "cells_1m": [("likes:c", "", at(FRIDAY, 12, 0), at(FRIDAY, 12, 0), 0, 9, 0, 0, 30)],
    "frequency_1m": [("views", 8, 3, at(FRIDAY, 12, 0), "eu", at(FRIDAY, 12, 0), 0, 9, 0)],
    "distinct_1h": [("likes:c", "", at(FRIDAY, 12, 0), 12, FRIDAY, {3: 3})],
    "dead_letters": [(0, 29, 0, at(FRIDAY, 12, 0), "delta is 0", 20, "{}")],
    "adjustments": [("likes:c", "three", "", at(date(1970, 1, 1)), 1, "ann", "", NOON, 0, 30)],
}
"""What the old build has beyond that: the new one is behind it in shard 0."""


@dataclass
class Builds:
    """The old build in a ClickHouse, and a new one to compare with it."""

    client: Client
    new: int

    def write(self, build: int, rows: Mapping[str, Sequence[Row]], replica: str = "main") -> None:
        """Insert rows of tables, table by table."""
        for table, lines in rows.items():
            named = {"build": build, **({"replica": replica} if table in REPLICATED else {})}
            self.client.insert(
                f"tally.{table}",
                [[*named.values(), *line] for line in lines],
                column_names=[*named, *COLUMNS[table].split(", ")],
                settings={"max_partitions_per_insert_block": 0},
            )

    def position(
        self, build: int, shard: int, through: int, log_time: datetime, replica: str = "main"
    ) -> None:
        names = "build, replica, shard, flushed_through, log_time, checkpoint_through"
        row = [build, replica, shard, through, log_time, through]
        self.client.insert("tally.positions", [row], column_names=names.split(", "))

    def roll_up(self, families: Families | None = None, build: int | None = None) -> None:
        rollup = Rollup(
            *(self.client, build or self.new, "main", families or Families(), SystemClock()),
            longest_query_s=0,
        )
        rollup.run(SHARDS)
        eventually(lambda: not self.rows(MUTATIONS)[0][0], "deletions are done")

    def fill(self, build: int, *, is_ahead: bool = False) -> None:
        """A build as workers and a leader leave it."""
        self.write(build, ROWS)
        if is_ahead:
            self.write(build, AHEAD)
        reached = (30, at(FRIDAY, 12, 0, 50)) if is_ahead else (28, at(FRIDAY, 12))
        self.position(build, 0, *reached)
        self.position(build, 1, 15, at(FRIDAY, 9, 0, 30))
        self.roll_up(build=build)

    def run(self, *statements: str) -> None:
        """Statements as somebody types them, of the new build; mutations are waited for."""
        for statement in statements:
            written = statement.replace("NEW", str(self.new))
            self.client.command(written, settings={"mutations_sync": 2})

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.client.query(query).result_rows]

    def compare(self, scope: Scope | None = None, **options: Any) -> Comparison:
        return compare(self.client, OLD, self.new, scope or Scope(), **options)

    def differ(self, scope: Scope | None = None) -> dict[str, int]:
        """How many rows differ, by table, where any do."""
        found = self.compare(scope)
        return {table.table: table.differ for table in found.tables if table.differ}


NUMBERS = itertools.count(2)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builds]:
    """The build that all others are compared with; it is ahead of them, and stays as it is."""
    with ClickHouse(tmp_path_factory.mktemp("compared")) as door:
        client = connect(f"http://{door.host}:{door.port}")
        empty_tables(client)
        builds = Builds(client, 0)
        builds.fill(OLD, is_ahead=True)
        yield builds
        client.close()


@pytest.fixture
def builds(old: Builds) -> Iterator[Builds]:
    """With a new build that is equal to the old one, though behind it."""
    made = Builds(old.client, next(NUMBERS))
    made.fill(made.new)
    yield made
    made.run("TRUNCATE TABLE tally.retention SYNC")


def compared(found: Comparison) -> dict[str, int]:
    return {table.table: table.compared for table in found.tables if table.compared}


def deleted(table: str, where: str) -> str:
    return f"ALTER TABLE tally.{table} DELETE WHERE build = NEW AND {where}"


def inserted(table: str, changed: str, where: str) -> str:
    """A row once more, with some columns changed."""
    return (
        f"INSERT INTO tally.{table} SELECT * REPLACE ({changed}) FROM tally.{table} "
        f"WHERE build = NEW AND {where}"
    )
