"""Two builds in a real ClickHouse: how far, and of what, they are compared."""

from datetime import date
from pathlib import Path

import pytest

from pipeline.builds.comparing.compare import Scope, compare, lines
from pipeline.builds.comparing.looks import by_digest
from pipeline.builds.comparing.reach import Positions, Reach
from pipeline.builds.comparing.sql import Asked
from pipeline.builds.comparing.state import Asking, State
from pipeline.builds.comparing.tables import TABLES
from pipeline.clickhouse import connect
from pipeline.clock import SystemClock
from pipeline.control.stored_retention import StoredRetention
from pipeline.errors import TryAgainError
from schemas.families import parse_families
from tests.integration.builds import compared_builds
from tests.integration.builds.compared_builds import (
    AHEAD,
    FRIDAY,
    JANUARY,
    LIKES,
    MONDAY,
    OCTOBER,
    OLD,
    ROWS,
    SHORT,
    Builds,
    at,
    compared,
    deleted,
    inserted,
)
from tests.integration.clickhouse.process import ClickHouse

old, builds = compared_builds.old, compared_builds.builds

SHORTER = parse_families(
    '[families.short]\nretention = { "1m" = "1d", "1h" = "90d", "1d" = "10d" }\n'
)
SHORTER_FOR_ALL = parse_families('[default]\nretention = { "1m" = "1d" }\n')


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
    monkeypatch.setattr("pipeline.builds.comparing.compare.SHARE_ROWS", 5)
    again = builds.compare()
    assert not again.differs
    assert compared(again) == compared(found)


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


def differing_elsewhere(builds: Builds) -> dict[str, int]:
    """What differs anyway, on the day of which more is flushed: so its rows are looked at."""
    builds.run(
        inserted("cells_1m", "p + 1 AS p", "counter = 'likes:c' AND slot = '2026-03-20 09:00:00'")
    )
    return builds.differ()


def flush(builds: Builds, counter: str, since: date) -> None:
    """More of a counter's open slots, before the position row."""
    changed = "p + 2 AS p, through + 1 AS through"
    where = f"counter = '{counter}' AND slot >= '{since:%F %T}'"
    builds.run(inserted("cells_1m", changed, where))


def test_what_is_flushed_while_rows_are_compared_is_no_difference(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something else differs on that day, so that its rows are looked at one by one."""
    alone = differing_elsewhere(builds)
    assert alone["cells_1m"] == 1
    looks, state = [0], Asking.state

    def state_and_then_a_flush(asking: Asking) -> State:
        found = state(asking)
        looks[0] += 1
        if looks[0] == 2:
            flush(builds, SHORT, FRIDAY)
        return found

    monkeypatch.setattr(Asking, "state", state_and_then_a_flush)
    found = builds.compare()
    assert {one.table: one.differ for one in found.tables if one.differ} == alone
    assert looks[0] == 2
    # What was left out because of it is not said to be compared.
    [moved] = [shard for shard in found.shards if (shard.replica, shard.shard) == ("main", 1)]
    assert moved.until_ms == round(at(FRIDAY, 9).timestamp() * 1000)


def test_so_is_what_another_shard_flushes_while_they_are_compared_again(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looked again because one shard had moved took the others for as still as before."""
    alone = differing_elsewhere(builds)
    builds.write(builds.new, AHEAD)
    builds.position(builds.new, 0, 30, at(FRIDAY, 12, 0, 50))
    looks, positions = [0], Asking.positions
    flushes = {2: (SHORT, FRIDAY), 3: ("likes:c", at(FRIDAY, 12))}

    def positions_and_then_a_flush(asking: Asking) -> tuple[Positions, Positions]:
        found = positions(asking)
        looks[0] += 1
        if looks[0] in flushes:
            flush(builds, *flushes[looks[0]])
        return found

    monkeypatch.setattr(Asking, "positions", positions_and_then_a_flush)
    assert builds.differ() == alone
    assert looks[0] > max(flushes)


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


def test_an_incarnation_that_ended_does_not_hold_the_age_back(builds: Builds) -> None:
    asking = Asking(builds.client, builds.new, builds.new)
    gone = asking.state().gone
    assert ("1m", JANUARY) in gone
    builds.run(deleted("positions", "shard = 0"))
    builds.position(builds.new, 0, 500, at(OCTOBER))
    builds.position(builds.new, 0, 28, at(FRIDAY, 12), replica="main~1")
    assert asking.state().gone == gone


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
