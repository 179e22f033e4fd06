"""What the source swaps, drops and deletes, followed at the target."""

from datetime import date, timedelta

from pipeline.exchange.foreign import foreign_number
from pipeline.exchange.foreign import forget as forget_cluster
from pipeline.rollup.steps import Rolled
from schemas.families import parse_families
from tests.integration.exchange.site import Cluster, assert_shows, assert_totals
from tests.integration.rollup.site import Cell, seconds

Two = tuple[Cluster, Cluster]

DAYS = [date(2026, 11, 1) + timedelta(days=n) for n in range(4)]
NOW_S = seconds(date(2026, 11, 12))

KEPT = """
[default]
retention = { "1m" = "2d", "1h" = "30d", "1d" = "forever" }
"""
LIKES_GO_FIRST = """
[default]
retention = { "1m" = "100d", "1h" = "forever", "1d" = "forever" }
[families.likes]
retention = { "1m" = "2d", "1h" = "forever", "1d" = "forever" }
"""


def let_go(cluster: Cluster, rules: str) -> Rolled:
    """Roll up; once days are known to be final, the next pass drops what is past its retention."""
    families = parse_families(rules)
    cluster.site.roll_up(1, families)
    return cluster.site.roll_up(1, families)


def count_days(cluster: Cluster) -> None:
    """Two families on four days, in one shard that has gone on since."""
    cluster.site.flush(
        (Cell(counter, "eu", seconds(day, 12), seconds(day, 12), 0), day.day, 1)
        for day in DAYS
        for counter in ("likes:1", "views:1")
    )
    cluster.site.flush_position(0, NOW_S)


def days_of(cluster: Cluster, build: int, family: str = "likes") -> set[date]:
    rows = cluster.rows(
        f"SELECT DISTINCT toDate(slot) FROM tally.cells_1m WHERE build = {build} "
        f"AND family = '{family}'"
    )
    return {day for (day,) in rows}


def test_days_that_the_source_dropped_go_too_and_totals_stay(clusters: Two) -> None:
    here, there = clusters
    count_days(here)
    here.send(there)
    number = foreign_number(here.identity, 1)
    assert days_of(there, number) == {*DAYS}
    assert let_go(here, KEPT).dropped
    assert days_of(here, 1) == set()
    # The hours and days came with this pass; a query may still be about to read the minutes.
    assert not here.send(there, longest_query_s=3600).removed
    assert days_of(there, number) == {*DAYS}
    here.send(there)
    assert days_of(there, number) == set()
    assert_totals(there, here)
    assert here.site.windows("1h") == there.site.windows("1h")


def test_a_day_that_comes_again_is_copied_again(clusters: Two) -> None:
    here, there = clusters
    count_days(here)
    here.send(there)
    let_go(here, KEPT)
    here.send(there)
    noon_s = seconds(DAYS[0], 12)
    here.site.flush([(Cell("likes:late", "eu", noon_s, noon_s, 0), 3, 0)])
    here.send(there)
    assert days_of(there, foreign_number(here.identity, 1)) == {DAYS[0]}
    assert_totals(there, here)


def test_rows_of_families_that_the_source_deleted_go_too(clusters: Two) -> None:
    here, there = clusters
    count_days(here)
    here.send(there)
    here.site.client.command("SYSTEM STOP MERGES tally.cells_1m")
    assert let_go(here, LIKES_GO_FIRST).deleted
    assert not here.send(there).removed, "the source has not deleted them yet"
    here.site.client.command("SYSTEM START MERGES tally.cells_1m")
    here.site.client.command(
        "ALTER TABLE tally.cells_1m DELETE WHERE 0", settings={"mutations_sync": 1}
    )
    number = foreign_number(here.identity, 1)
    assert len(here.send(there).removed) == len(DAYS)
    there.site.client.command(
        "ALTER TABLE tally.cells_1m DELETE WHERE 0", settings={"mutations_sync": 1}
    )
    assert days_of(there, number, "likes") == set()
    assert days_of(there, number, "views") == {*DAYS}
    assert_totals(there, here)
    assert not here.send(there).removed, "each is asked for once"


def test_a_build_that_the_source_declares_takes_the_place_of_the_one_before(clusters: Two) -> None:
    here, there = clusters
    count_days(here)
    here.send(there)
    first, second = (foreign_number(here.identity, build) for build in (1, 2))
    # Another counting of the log has two more counters, of which nobody knows before it is live.
    here.site.build = 2
    count_days(here)
    noon_s = seconds(DAYS[1], 12)
    here.site.flush([(Cell("likes:new", "eu", noon_s, noon_s, 1), 40, 0)])
    assert here.send(there).build == 1
    assert "likes:new" not in there.site.totals()
    here.declare(2)
    passed = here.send(there, longest_query_s=3600)
    assert (passed.build, passed.declared) == (2, True)
    assert there.foreign_builds() == sorted([first, second])
    assert_shows(there, here)
    assert here.send(there).dropped_builds == [first]
    assert there.foreign_builds() == [second]
    assert_shows(there, here)


def test_a_build_that_is_declared_again_is_copied_whole_again(clusters: Two) -> None:
    here, there = clusters
    count_days(here)
    here.send(there)
    here.site.build = 2
    count_days(here)
    for build in (2, 1):
        here.declare(build)
        here.send(there)
        assert_shows(there, here)
        assert there.foreign_builds() == [foreign_number(here.identity, build)]


def test_retention_of_the_target_leaves_what_others_sent(clusters: Two) -> None:
    here, there = clusters
    count_days(here)
    here.send(there)
    there.site.flush_position(0, NOW_S)
    let_go(there, KEPT)
    assert days_of(there, foreign_number(here.identity, 1)) == {*DAYS}
    assert there.rows("SELECT count() FROM tally.cells_1h") == [(0,)]


def test_a_cluster_that_is_forgotten_counts_no_more(clusters: Two) -> None:
    here, there = clusters
    count_days(here)
    here.send(there)
    number = foreign_number(here.identity, 1)
    assert forget_cluster(there.side, here.identity) == [number]
    assert there.site.totals() == {}
    assert there.foreign_builds() == []
    here.send(there)
    assert_shows(there, here)
