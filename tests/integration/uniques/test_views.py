"""The tables and views of distinct members, and the functions they are made of."""

import re
from datetime import date, timedelta

import clickhouse_connect
import numpy as np
import pytest
from clickhouse_connect.driver import Client

from pipeline.clock import SystemClock
from pipeline.reads import uniques as unique_reads
from pipeline.reads.reads import Reads
from pipeline.reads.uniques import Question
from schemas.families import parse_families
from schemas.migrate import migrate
from schemas.rules import Grain
from sketches.distinct import Distinct
from sketches.registers import rank_max
from tests.integration.rollup.site import Cell, Site, seconds
from tests.integration.uniques.members import (
    ABOUT,
    HOME,
    NOW_S,
    TODAY,
    Members,
    ask,
    expected_windows,
    number,
    of,
    people,
    rows,
    sketched,
)
from tests.kit.door import Door
from tests.kit.waiting import eventually

VIEWS = "name LIKE 'uniques\\_%'"


def test_views_tell_what_a_sketch_of_the_same_members_does(members: Members) -> None:
    for grain in ("1h", "1d"):
        for counter in (HOME, ABOUT):
            query = (
                "SELECT toUnixTimestamp(window), uniques, low, high "
                f"FROM tally.uniques_{grain} WHERE counter = '{counter}'"
            )
            found = {at: (n, low, high) for at, n, low, high in rows(members.client, query)}
            assert found == expected_windows(members, counter, grain)
    query = "SELECT toUnixTimestamp(window), uniques, low, high FROM tally.uniques_by_region_1h "
    where = f"WHERE counter = '{HOME}' AND region = 'us'"
    found = {at: (n, low, high) for at, n, low, high in rows(members.client, query + where)}
    assert found == expected_windows(members, HOME, "1h", "us")
    assert len(found) == 36


def test_the_truth_is_within_the_bounds(members: Members) -> None:
    inside = 0
    query = f"SELECT toUnixTimestamp(window), low, high FROM tally.uniques_1h WHERE {of(HOME)}"
    found = rows(members.client, query)
    for start, low, high in found:
        inside += low <= len(members.truth(HOME, since_s=start, until_s=start + 3600)) <= high
    assert inside >= len(found) - 3
    answer = ask(members.client, HOME)
    assert answer.low <= len(members.truth(HOME)) <= answer.high


def test_the_query_of_the_documentation_works_as_it_is_written(members: Members) -> None:
    found = members.client.query(
        "SELECT window, uniques FROM tally.uniques_1h WHERE counter = 'views:home'"
    )
    assert len(found.result_rows) == 37
    assert found.column_names == ("window", "uniques")


def test_writing_twice_late_or_in_parts_changes_nothing(members: Members) -> None:
    before = rows(members.client, "SELECT * FROM tally.uniques_1d ORDER BY ALL")
    at_s = seconds(TODAY, 3) + 600
    for part in (people(27 * 40, 100), people(27 * 40, 300), people(27 * 40 + 90, 10)):
        members.write(HOME, "eu", at_s, part)
    assert rows(members.client, "SELECT * FROM tally.uniques_1d ORDER BY ALL") == before
    members.client.command("OPTIMIZE TABLE tally.distinct_1d FINAL")
    assert rows(members.client, "SELECT * FROM tally.uniques_1d ORDER BY ALL") == before
    # HOME in two regions on two days, ABOUT in one.
    assert rows(members.client, "SELECT count() FROM tally.distinct_1d") == [(6,)]


def test_precisions_are_folded_to_the_least_of_a_window(client: Client) -> None:
    members = Members(client)
    at_s = seconds(TODAY, 5)
    for hour, precisions in enumerate([(12,), (14, 9), (9, 12, 16), (16,)]):
        for place, precision in enumerate(precisions):
            members.precision = precision
            members.write(HOME, "", at_s + hour * 3600, people(place * 500, 900))
    found = rows(
        client,
        f"SELECT toHour(window), uniques, low, high FROM tally.uniques_1h WHERE {of(HOME)} "
        "ORDER BY window",
    )
    least = {5: 12, 6: 9, 7: 9, 8: 16}
    for hour, *told in found:
        start = seconds(TODAY, hour)
        truth = members.truth(HOME, since_s=start, until_s=start + 3600)
        assert tuple(told) == sketched(truth, least[hour]), hour
    assert [row[0] for row in found] == [5, 6, 7, 8]
    assert number(ask(client, HOME)) == sketched(members.truth(HOME), 9)
    told_windows = ask(client, HOME, by="1h").windows
    assert told_windows is not None
    assert [(row.uniques, row.low, row.high) for row in told_windows] == [
        tuple(row[1:]) for row in found
    ]


def test_folding_in_sql_is_folding_in_python(client: Client) -> None:
    chance = np.random.default_rng(7)
    for _ in range(30):
        narrow, wide = sorted(chance.integers(4, 17, 2).tolist())
        count = int(chance.integers(0, 1 << wide))
        indexes = chance.permutation(1 << wide)[:count]
        ranks = np.minimum(chance.geometric(0.3, count), rank_max(wide))
        sketch = Distinct.from_registers(wide, indexes, ranks)
        client.command("TRUNCATE TABLE tally.distinct_1h")
        Members(client).insert("1h", [(HOME, "", NOW_S, sketch)])
        [(found,)] = rows(
            client, f"SELECT tallyFold(registers, precision, {narrow}) FROM tally.distinct_1h"
        )
        assert Distinct.from_registers(narrow, [*found], [*found.values()]) == sketch.folded(narrow)


def test_views_read_the_build_that_was_declared_last(client: Client) -> None:
    Members(client).write(HOME, "", NOW_S, people(0, 10))
    Members(client, build=2).write(HOME, "", NOW_S, people(0, 20))
    told = f"SELECT uniques FROM tally.uniques_1d WHERE {of(HOME)}"
    assert rows(client, told) == [(10,)]
    assert ask(client, HOME).uniques == 10
    client.command("INSERT INTO tally.builds SELECT '', 2, 2, now64(3), 'a better one'")
    assert rows(client, told) == [(20,)]
    assert ask(client, HOME).uniques == 20


@pytest.mark.parametrize("grain", ["1m", "1h", "1d"])
@pytest.mark.parametrize("view", ["uniques", "uniques_by_region"])
def test_a_counter_is_found_by_the_primary_key(client: Client, view: str, grain: Grain) -> None:
    members = Members(client, grains=(grain,))
    for counter in ("a:x", HOME, "z:x"):
        members.write(counter, "", NOW_S, ["a"])
    since = "toDateTime('2026-03-20 00:00:00', 'UTC')"
    query = f"SELECT * FROM tally.{view}_{grain} WHERE {of(HOME)} AND window >= {since}"
    plan = "\n".join(row[0] for row in rows(client, f"EXPLAIN indexes = 1 {query}"))
    [part] = plan.split(f"ReadFromMergeTree (tally.distinct_{grain})")[1:]
    key = part.split("PrimaryKey")[1]
    assert "counter in ['views:home', 'views:home']" in key
    assert "build in 1-element set" in key
    assert re.search(r"window\)* in \[", key)


def test_every_column_says_what_it_is(client: Client) -> None:
    names = rows(client, f"SELECT name FROM system.tables WHERE database = 'tally' AND ({VIEWS})")
    assert len(names) == 6
    assert (
        rows(
            client,
            "SELECT table, name FROM system.columns WHERE database = 'tally' AND comment = '' "
            "AND (table LIKE 'uniques\\_%' OR table LIKE 'distinct\\_%')",
        )
        == []
    )


def test_members_go_with_the_cells_of_their_day(client: Client) -> None:
    site, day = Site(client), date(2026, 3, 10)
    families = parse_families(
        '[default]\nretention = { "1m" = "2d", "1h" = "20d", "1d" = "20d" }\n'
        '[families.brief]\nretention = { "1h" = "3d" }'
    )
    members = Members(client, grains=("1m", "1h", "1d"))
    for counter in ("brief:x", HOME):
        site.flush([(Cell(counter, "", seconds(day, 5), seconds(day, 5), 0), 1, 0)])
        members.write(counter, "", seconds(day, 5), people(0, 9))
    # Of a day later only members are left: a pass was cut short between two tables.
    members.write(HOME, "", seconds(day + timedelta(1), 5), people(5, 9))
    site.flush_position(0, seconds(day + timedelta(10)))
    site.roll_up(1, families)
    assert site.partitions_of("distinct_1m") == {"2026-03-10", "2026-03-11"}
    site.roll_up(1, families)
    assert site.partitions_of("distinct_1m") == site.partitions_of("cells_1m") == set()
    mutations = "SELECT count() FROM system.mutations WHERE database = 'tally' AND NOT is_done"
    eventually(lambda: not site.rows(mutations)[0][0], "deletions are done")
    assert site.rows("SELECT DISTINCT counter FROM tally.distinct_1h") == [(HOME,)]
    assert site.rows("SELECT count() FROM tally.distinct_1d") == [(3,)]
    assert number(ask(client, HOME)) == sketched(members.truth(HOME))
    site.flush_position(0, seconds(day + timedelta(70)))
    for _ in range(3):
        site.roll_up(1, families)
    for grain in ("1h", "1d"):
        assert site.partitions_of(f"distinct_{grain}") == set()


def test_functions_outlive_a_kill_and_are_made_anew_where_they_are_missing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    server = Door(tmp_path_factory.mktemp("functions"))
    server.start()
    try:
        first = clickhouse_connect.get_client(dsn=server.url, autogenerate_session_id=False)
        migrate(first)
        first.close()
        server.kill()
        server.start()
        client = clickhouse_connect.get_client(dsn=server.url, autogenerate_session_id=False)
        one = "SELECT tallyWhole(tallyDistinct(map(1::UInt16, 1::UInt8), 12))"
        assert rows(client, one) == [(1,)]
        client.command("DROP FUNCTION tallyDistinct")
        # A view has them in it.
        Members(client).write(HOME, "", NOW_S, ["a", "b"])
        assert rows(client, "SELECT uniques FROM tally.uniques_1d") == [(2,)]
        assert migrate(client) == []
        assert rows(client, one) == [(1,)]
        assert unique_reads.uniques(Reads(client, SystemClock()), Question((HOME,))).uniques == 2
        client.close()
    finally:
        server.kill()
