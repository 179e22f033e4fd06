"""Two builds in a real ClickHouse: what is spoilt in one of them is found, and nothing else."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.builds.compare import Comparison, Scope, compare, lines
from pipeline.builds.compare_looks import by_digest
from pipeline.builds.compare_reach import Reach
from pipeline.builds.compare_sql import Asked
from pipeline.builds.compare_tables import TABLES
from pipeline.clickhouse import connect
from pipeline.clock import SystemClock
from pipeline.control.stored_retention import StoredRetention
from pipeline.errors import TryAgainError
from schemas.families import parse_families
from tests.integration.builds.compared_builds import (
    FRIDAY,
    LIKES,
    MONDAY,
    OLD,
    ROWS,
    SHORT,
    Builds,
    at,
)
from tests.integration.clickhouse.process import ClickHouse
from tests.kit.tables import empty_tables

NUMBERS = itertools.count(2)
SHORTER = parse_families(
    '[families.short]\nretention = { "1m" = "1d", "1h" = "90d", "1d" = "10d" }\n'
)
SHORTER_FOR_ALL = parse_families('[default]\nretention = { "1m" = "1d" }\n')


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


def test_equal_builds_at_different_positions_are_equal(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = builds.compare()

    assert not found.differs
    assert found.complete
    # January's minutes may go by now; of Friday shard 1 is as far as in the old build.
    assert compared(found) == {
        "cells_1m": 8,
        "merged_1h": 6,
        "cells_1h": 5,
        "merged_1d": 6,
        "cells_1d": 6,
        "merged_life": 1,
        "cells_life": 1,
        "distinct_1m": 1,
        "distinct_1h": 2,
        "distinct_1d": 1,
        "adjustments": 2,
        "frequency_1m": 3,
        "merged_frequency_1h": 2,
        "frequency_1h": 2,
        "merged_frequency_1d": 2,
        "frequency_1d": 2,
        "heavy_1m": 2,
        "dead_letters": 3,
    }
    assert [(shard.shard, shard.through) for shard in found.shards] == [(0, 21), (1, 15)]
    *_, last = lines(found)
    assert last == (f"builds 1 and {builds.new} agree through offset 21 of shard 0, 15 of shard 1")
    # Rows that are there twice are the same rows; what is large is compared in shares.
    builds.write(builds.new, ROWS)
    monkeypatch.setattr("pipeline.builds.compare.SHARE_ROWS", 5)
    again = builds.compare()
    assert not again.differs
    assert compared(again) == compared(found)


def deleted(table: str, where: str) -> str:
    return f"ALTER TABLE tally.{table} DELETE WHERE build = NEW AND {where}"


def inserted(table: str, changed: str, where: str) -> str:
    """A row once more, with some columns changed."""
    return (
        f"INSERT INTO tally.{table} SELECT * REPLACE ({changed}) FROM tally.{table} "
        f"WHERE build = NEW AND {where}"
    )


def test_rows_that_were_deleted_are_found_in_every_table(builds: Builds) -> None:
    builds.run(
        deleted("cells_1m", "counter = 'likes:b'"),
        deleted("cells_1h", "counter = 'likes:a' AND region = 'eu'"),
        # Of a day that is not over: what of it is rolled up already must stay.
        deleted("cells_1h", "counter = 'likes:c'"),
        deleted("cells_1d", "counter = 'short:x'"),
        deleted("distinct_1m", "true"),
        deleted("distinct_1h", "counter = 'likes:b'"),
        deleted("distinct_1d", "true"),
        deleted("adjustments", "id = 'two'"),
        deleted("frequency_1m", "bucket = 11"),
        deleted("frequency_1h", "slot_day = '2026-03-16' AND bucket = 3"),
        deleted("frequency_1d", "slot_day = '2026-03-16' AND bucket = 3"),
        deleted("heavy_1m", "through = 11"),
        deleted("dead_letters", "offset = 5"),
    )

    found = builds.compare()

    assert {table.table: table.differ for table in found.tables if table.differ} == {
        "cells_1m": 1,
        "cells_1h": 2,
        # Monday's; the slot in which Friday's was counted is open, so it will be rolled up again.
        "cells_1d": 1,
        "distinct_1m": 1,
        "distinct_1h": 1,
        "distinct_1d": 1,
        "adjustments": 1,
        "frequency_1m": 1,
        "frequency_1h": 1,
        "frequency_1d": 1,
        "heavy_1m": 1,
        "dead_letters": 1,
    }
    shown = "\n".join(lines(found))
    new = builds.new
    assert (
        "  likes:b eu 2026-03-19 23:59 slot 2026-03-19 23:59 replica main shard 1: "
        f"p 2, n 2, duplicates 0, through 9 in build 1, none in build {new}"
    ) in shown
    # Its minutes have 5, and it should be among the hours.
    assert (
        "  likes:c 2026-03-20 09:00 slot_day 2026-03-20 replica main shard 0: "
        f"none in build 1, p 0, n 0, duplicates 0, above 0, below 5 in build {new}"
    ) in shown
    assert f"builds 1 and {new} differ" in shown
    assert json.loads(json.dumps(found.document()))["differs"]


def test_rows_that_were_raised_are_found_in_every_table(builds: Builds) -> None:
    builds.run(
        # Doubled, as it would be by adding instead of comparing; hours and days follow minutes.
        inserted("cells_1m", "p * 2 AS p", "counter = 'likes:b'"),
        inserted("cells_1m", "n + 2 AS n", "window = '2026-03-16 10:00:00' AND region = 'eu'"),
        inserted("cells_1m", "through + 1 AS through", "window = '2026-03-16 10:01:00'"),
        inserted("cells_1m", "duplicates + 1 AS duplicates", "slot = '2026-03-19 09:00:00'"),
        inserted("cells_1h", "p * 2 AS p", "counter = 'short:x' AND slot_day = '2026-03-16'"),
        inserted("cells_1h", "p + 45 AS p", "counter = 'likes:c'"),
        inserted("cells_1d", "n + 1 AS n", "counter = 'short:y'"),
        inserted("cells_1d", "p + 1 AS p", "slot_day = '2025-11-03'"),
        inserted("cells_life", "n + 1 AS n", "true"),
        inserted("distinct_1m", "map(1, 3) AS registers", "true"),
        inserted("distinct_1h", "map(8, 1) AS registers", "counter = 'likes:b'"),
        inserted("distinct_1d", "map(5, 9) AS registers", "true"),
        inserted("adjustments", "6 AS by", "id = 'two'"),
        inserted("frequency_1m", "p * 2 AS p", "bucket = 11"),
        inserted("frequency_1h", "n + 1 AS n", "slot_day = '2026-03-16' AND bucket = 3"),
        inserted("heavy_1m", "['views:z'] AS counters, [1] AS counts", "through = 11"),
        inserted("dead_letters", "'another' AS reason", "offset = 5"),
    )

    found = builds.compare()

    assert {table.table: table.differ for table in found.tables if table.differ} == {
        "cells_1m": 4,
        # likes:b, likes:a by n, likes:a by duplicates, short:x.
        "merged_1h": 4,
        # short:x, and likes:c that is above what Friday's minutes add up to.
        "cells_1h": 2,
        # The same as in hours, and short:y in January.
        "merged_1d": 5,
        # short:y again, and November, of which there is nothing else.
        "cells_1d": 2,
        "merged_life": 1,
        "cells_life": 1,
        "distinct_1m": 1,
        "distinct_1h": 1,
        "distinct_1d": 1,
        "adjustments": 1,
        "frequency_1m": 1,
        # Both buckets of Monday.
        "merged_frequency_1h": 2,
        "frequency_1h": 1,
        "merged_frequency_1d": 2,
        "heavy_1m": 1,
        "dead_letters": 1,
    }
    shown = "\n".join(lines(found))
    for text in (
        f"shard 1: p 2 in build 1, p 4 in build {builds.new}",
        f"shard 0: through 12 in build 1, through 13 in build {builds.new}",
        "above 45, below 0 in build",
        f"reason no counter in build 1, reason another | no counter in build {builds.new}",
        f"by 5 in build 1, by 5 | 6 in build {builds.new}",
    ):
        assert text in shown


def test_values_that_were_lowered_are_found(builds: Builds) -> None:
    change = "ALTER TABLE tally.{} UPDATE {} WHERE build = NEW AND {}"
    builds.run(
        change.format("cells_1m", "p = 4", "window = '2026-03-16 10:00:00' AND region = 'eu'"),
        change.format("cells_1m", "n = 1", "counter = 'likes:b'"),
        change.format("cells_1m", "through = 11, duplicates = 1", "window = '2026-03-16 10:01:00'"),
        change.format("cells_1h", "p = 11", "counter = 'likes:a' AND region = 'eu'"),
        change.format("cells_1d", "p = 1", "counter = 'likes:b'"),
        change.format("distinct_1h", "registers = map(1, 2, 5, 1)", "counter = 'likes:a'"),
    )
    assert builds.differ() == {
        "cells_1m": 3,
        # likes:a, of which hour and minute are lower. The day still has it.
        "merged_1h": 1,
        "cells_1h": 1,
        "cells_1d": 1,
        "distinct_1h": 1,
    }


def test_rows_that_nobody_counted_are_found(builds: Builds) -> None:
    cell = (1, 0, 0, 1)
    monday = at(MONDAY, 10)
    builds.write(
        builds.new,
        {
            "cells_1m": [
                ("likes:new", "", monday, monday, 0, *cell),
                ("likes:shard", "", monday, monday, 9, *cell),
                (
                    "likes:later",
                    "",
                    at(FRIDAY.replace(year=2027)),
                    at(FRIDAY.replace(year=2027)),
                    0,
                    *cell,
                ),
            ],
            "dead_letters": [(0, 12, 0, monday, "made up", 1, "")],
        },
    )
    builds.write(
        builds.new, {"cells_1m": [("likes:replica", "", monday, monday, 0, *cell)]}, "else"
    )

    found = builds.compare(examples_max=3)

    by_table = {table.table: table for table in found.tables if table.differ}
    assert {name: table.differ for name, table in by_table.items()} == {
        "cells_1m": 4,
        "merged_1h": 4,
        "merged_1d": 4,
        "dead_letters": 1,
    }
    assert [len(table.examples) for table in by_table.values()] == [3, 3, 3, 1]
    assert [example.old for example in by_table["cells_1m"].examples] == [None] * 3


def test_a_shard_without_a_position_is_not_compared_and_one_without_cells_differs(
    builds: Builds,
) -> None:
    builds.run(deleted("cells_1m", "shard = 1"))
    # Friday's hour is above what its minutes add up to: nothing.
    assert builds.differ() == {"cells_1m": 4, "cells_1h": 1}

    builds.run(deleted("positions", "shard = 1"))
    found = builds.compare()

    assert not found.complete
    assert not found.differs
    # Registers are of all shards together.
    assert compared(found).keys().isdisjoint({"distinct_1m", "distinct_1h", "distinct_1d"})
    said = list(lines(found))
    assert f"shard 1 of main was not compared: build {builds.new} has not counted it" in said
    assert said[-1] == (
        f"builds 1 and {builds.new} agree through offset 21 of shard 0, "
        "of the shards that both have"
    )


def test_open_slots_are_compared_where_builds_are_equally_far(builds: Builds) -> None:
    builds.run(inserted("cells_1m", "p + 1 AS p", "counter = 'short:x' AND window >= '2026-03-20'"))
    assert builds.differ() == {"cells_1m": 1, "merged_1h": 1, "merged_1d": 1}

    # A flush is under way: its cells are there, and its position is not yet.
    builds.run(
        inserted(
            "cells_1m",
            "p + 2 AS p, through + 1 AS through",
            "counter = 'short:x' AND window >= '2026-03-20'",
        )
    )
    assert builds.differ() == {}


def test_what_retention_took_is_no_difference_and_what_else_is_gone_is(builds: Builds) -> None:
    StoredRetention(builds.client, SystemClock()).store(SHORTER)
    for _ in range(2):
        builds.roll_up(SHORTER)
    gone = f"SELECT count() FROM tally.{{}} WHERE build = {builds.new} AND family = 'short'"
    assert builds.rows(gone.format("cells_1m")) == [(1,)]
    assert builds.rows(gone.format("cells_1d") + " AND slot_day < '2026-02-01'") == [(0,)]
    assert builds.rows(gone.format("cells_life")) == [(2,)]
    found = builds.compare()
    assert not found.differs
    assert compared(found)["cells_1m"] == 7
    # October, November and January.
    assert compared(found)["merged_life"] == 3

    StoredRetention(builds.client, SystemClock()).store(SHORTER_FOR_ALL)
    builds.roll_up(SHORTER_FOR_ALL)
    days = f"SELECT DISTINCT toDate(slot) FROM tally.cells_1m WHERE build = {builds.new}"
    assert len(builds.rows(days)) == 2
    assert builds.differ() == {}

    builds.run(
        deleted("cells_life", "true"),
        deleted("cells_1h", f"counter = '{SHORT}' AND slot_day = '2026-03-16'"),
        # A day that no retention lets go yet.
        "ALTER TABLE tally.cells_1m DROP PARTITION (NEW, '2026-03-19')",
    )
    assert builds.differ() == {
        "cells_1m": 2,
        "merged_1h": 1,
        "cells_1h": 1,
        # October's. Of November days, and of January hours still say what it should be.
        "merged_life": 1,
        "cells_life": 3,
    }


def test_only_what_is_in_the_scope_is_compared(builds: Builds) -> None:
    builds.run(
        inserted("cells_1m", "through + 1 AS through", "counter != 'likes:b'"),
        deleted("dead_letters", "true"),
        deleted("heavy_1m", "true"),
    )
    assert builds.differ(Scope(counter=LIKES)) == {"cells_1m": 3}
    assert builds.differ(Scope(family="views")) == {"heavy_1m": 2}
    span = (round(at(*when).timestamp() * 1000) for when in ((MONDAY, 10, 1), (FRIDAY,)))
    # Two of Monday, one of them of another family; January, and Thursday's are not in it.
    assert builds.differ(Scope(None, None, *span)) == {"cells_1m": 2}


def test_a_counter_is_found_by_the_primary_key(builds: Builds) -> None:
    reach = Reach({("main", 0): 1_773_000_000_000})
    asked = Asked(OLD, builds.new, Scope(counter=LIKES), reach, {}, units=(MONDAY,))
    for table in TABLES:
        if "counter" in table.knows:
            query = f"EXPLAIN indexes = 1 {by_digest(table, asked)}"
            parameters = {"counter": LIKES, "replica_0": "main"}
            used = {name: value for name, value in parameters.items() if f"{{{name}:" in query}
            plan = "\n".join(row[0] for row in builds.client.query(query, used).result_rows)
            keys = plan.split("PrimaryKey")[1:]
            assert all(f"counter in ['{LIKES}', '{LIKES}']" in key for key in keys), table.name
            assert keys or "ReadNothing" in plan


def test_a_clickhouse_that_is_away_is_to_be_asked_again(tmp_path: Path) -> None:
    with ClickHouse(tmp_path) as door:
        client = connect(f"http://{door.host}:{door.port}")
    with pytest.raises(TryAgainError):
        compare(client, 1, 2, Scope())
