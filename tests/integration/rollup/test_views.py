"""The views that people ask: what they say of a sliding hour and day, and how they find it."""

import re
from datetime import UTC, datetime

import pytest

from tests.integration.rollup.site import HOUR_S, MINUTE_S, SLOT_S, Cell, Site, seconds
from tests.integration.rollup.test_rollup import DAY, LATER, cell

TABLES = {"cells_1m", "cells_1h", "cells_1d", "cells_life"}
PEOPLE = "name LIKE 'counts\\_%' OR name LIKE 'top\\_%' OR name = 'totals'"


def now_s(site: Site) -> int:
    return int(site.rows("SELECT toUnixTimestamp(now())")[0][0])


def recent(at_s: int, counter: str, region: str = "", shard: int = 0) -> Cell:
    return Cell(counter, region, at_s - at_s % MINUTE_S, at_s - at_s % SLOT_S, shard)


def test_the_leaders_of_the_last_hour_and_day_slide_with_the_clock(site: Site) -> None:
    now = now_s(site)
    site.flush(
        [
            (recent(now, "tag:cats", "eu"), 5, 1),
            (recent(now - 50 * MINUTE_S, "tag:cats", "us"), 3, 0),
            (recent(now - 50 * MINUTE_S, "tag:dogs", "us", shard=1), 6, 0),
            (recent(now - 70 * MINUTE_S, "tag:dogs", "us"), 100, 0),
            (recent(now - 23 * HOUR_S, "tag:owls"), 8, 0),
            (recent(now - 25 * HOUR_S, "tag:owls"), 1000, 0),
            (recent(now, "tag:down"), 1, 2),
            (recent(now, "tag:"), 500, 0),
            (recent(now, ":"), 500, 0),
            (recent(now, "other:x"), 50, 0),
        ]
    )
    # A repeated flush with more in it: the greatest counts, not the sum.
    site.flush([(recent(now, "tag:cats", "eu"), 6, 1)])

    def top(period: str, region: str) -> list[tuple[object, ...]]:
        return site.rows(
            f"SELECT rank, counter, toInt64(count), toInt64(error) FROM tally.top_last_{period} "
            f"WHERE family = 'tag' AND region = '{region}' ORDER BY rank"
        )

    assert top("hour", "*") == [(1, "tag:cats", 8, 0), (2, "tag:dogs", 6, 0)]
    assert top("hour", "us") == [(1, "tag:dogs", 6, 0), (2, "tag:cats", 3, 0)]
    assert top("hour", "") == []
    assert top("day", "*") == [
        (1, "tag:dogs", 106, 0),
        (2, "tag:cats", 8, 0),
        (3, "tag:owls", 8, 0),
    ]
    families = site.rows("SELECT DISTINCT family FROM tally.top_last_hour ORDER BY family")
    assert families == [("other",), ("tag",)]


def test_of_two_equal_counts_the_first_by_name_leads(site: Site) -> None:
    now = now_s(site)
    site.flush([(recent(now, f"tag:{name}"), 2, 0) for name in "cab"])
    rows = site.rows("SELECT counter FROM tally.top_last_hour WHERE region = '*' ORDER BY rank")
    assert rows == [("tag:a",), ("tag:b",), ("tag:c",)]


@pytest.fixture
def filled(site: Site) -> Site:
    """Parts in every table, most of them of other counters."""
    others = [cell(f"family{number % 7}:{number}", hour=number % 24) for number in range(5000)]
    site.flush([(one, 1, 0) for one in [*others, cell()]])
    site.flush_position(0, seconds(LATER))
    site.roll_up(1)
    site.rows("SELECT 1")
    site.client.command(
        "INSERT INTO tally.cells_life (build, counter, region, slot_month, replica, shard, p, n) "
        "SELECT build, counter, region, toStartOfMonth(slot_day), replica, shard, p, n "
        "FROM tally.cells_1d"
    )
    now = now_s(site)
    site.flush([(recent(now, f"family{number % 7}:{number}"), 1, 0) for number in range(5000)])
    return site


def reads(site: Site, query: str) -> dict[str, list[str]]:
    """Of each table that a query reads, how the primary key or an index is used, by the plan."""
    plan = "\n".join(row[0] for row in site.rows(f"EXPLAIN indexes = 1 {query}"))
    found: dict[str, list[str]] = {}
    for part in plan.split("ReadFromMergeTree (tally.")[1:]:
        found.setdefault(part.partition(")")[0], []).append(part)
    return {table: parts for table, parts in found.items() if table.startswith("cells_")}


@pytest.mark.parametrize(
    ("view", "tables"),
    [
        ("counts_1m", {"cells_1m"}),
        ("counts_by_region_1m", {"cells_1m"}),
        ("counts_1h", {"cells_1m", "cells_1h"}),
        ("counts_by_region_1h", {"cells_1m", "cells_1h"}),
        ("counts_1d", {"cells_1m", "cells_1h", "cells_1d"}),
        ("counts_by_region_1d", {"cells_1m", "cells_1h", "cells_1d"}),
        ("totals", TABLES),
    ],
)
def test_a_counter_is_found_by_the_primary_key_of_every_table(
    filled: Site, view: str, tables: set[str]
) -> None:
    found = reads(filled, f"SELECT * FROM tally.{view} WHERE counter = 'likes:a'")
    assert set(found) == tables
    for parts in found.values():
        for part in parts:
            key = part.split("PrimaryKey")[1]
            assert "counter in ['likes:a', 'likes:a']" in key
            assert "build in 1-element set" in key


@pytest.mark.parametrize("grain", ["1m", "1h", "1d"])
def test_windows_are_found_by_the_primary_key_as_well(filled: Site, grain: str) -> None:
    since = datetime.fromtimestamp(seconds(DAY), UTC).strftime("%Y-%m-%d %H:%M:%S")
    where = f"counter = 'likes:a' AND window >= toDateTime('{since}', 'UTC')"
    found = reads(filled, f"SELECT * FROM tally.counts_{grain} WHERE {where}")
    for parts in found.values():
        assert all(re.search(r"window\)* in \[", part.split("PrimaryKey")[1]) for part in parts)


@pytest.mark.parametrize("view", ["top_last_hour", "top_last_day"])
def test_leaders_of_a_family_are_found_without_reading_old_days_or_other_families(
    filled: Site, view: str
) -> None:
    query = f"SELECT * FROM tally.{view} WHERE family = 'family3' AND region = '*'"
    found = reads(filled, query)
    assert set(found) == {"cells_1m"}
    for part in found["cells_1m"]:
        assert "family in ['family3', 'family3']" in part
        old_parts = re.search(r"Min-Max.*?Parts: (\d+)/(\d+)", part, re.DOTALL)
        assert old_parts is not None
        assert int(old_parts[1]) < int(old_parts[2])


def test_every_column_of_the_views_for_people_says_what_it_is(site: Site) -> None:
    views = site.rows(f"SELECT name FROM system.tables WHERE database = 'tally' AND ({PEOPLE})")
    assert len(views) == 15
    assert (
        site.rows(
            "SELECT table, name FROM system.columns WHERE database = 'tally' AND comment = '' "
            f"AND table IN (SELECT name FROM system.tables WHERE database = 'tally' AND ({PEOPLE}))"
        )
        == []
    )
    assert site.rows(
        "SELECT name FROM system.tables WHERE database = 'tally' AND comment = ''"
    ) == [("migrations",)]
