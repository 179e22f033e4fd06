"""Refused rows of sketches, the heaviest and members, inserted later: exactly, or left out."""

from collections import Counter
from datetime import timedelta

import pytest

from pipeline.letters.insert import GONE
from pipeline.letters.rows import BUCKETS, HEAVIEST, read_row
from pipeline.reads import counts
from pipeline.reads.counts import Question
from pipeline.reads.reads import Reads
from schemas.families import parse_families
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.refusing import (
    ALL_TABLES,
    DAY,
    NOON_S,
    Increment,
    Refusing,
    stored_buckets,
    stored_registers,
    stored_weights,
)
from tests.integration.rollup.site import HOUR_S, MINUTE_S, Site, seconds
from tests.kit.clocks import ManualClock
from tests.kit.waiting import eventually

FAMILIES = parse_families(
    """
[default]
retention = { "1m" = "3d", "1h" = "7d", "1d" = "forever" }
[families.short]
retention = { "1m" = "2d", "1h" = "6d", "1d" = "10d" }
[families.brief]
retention = { "1m" = "2d", "1h" = "6d", "1d" = "10d" }
"""
)
pytestmark = pytest.mark.timeout(300)
REGISTERS = ("distinct_1m", "distinct_1h", "distinct_1d", "trend_members")


@pytest.fixture
def refusing(site: Site, door: ClickHouse) -> Refusing:
    return Refusing(site, f"http://{door.host}:{door.port}")


def roll_up(site: Site, days_later: int = 0) -> None:
    site.flush_position(0, seconds(DAY + timedelta(days=1 + days_later)))
    assert site.roll_up(1, FAMILIES).problems == []


def at(minute: int) -> int:
    return NOON_S + minute * MINUTE_S


LONG, SHORT = ("views", "likes"), ("short", "brief")
"""A sketched and an exact family each, by their retention."""


def some(families: tuple[str, str], minute: int) -> list[Increment]:
    """Of two regions; one is late by more than an hour, one takes away."""
    return [
        one
        for family in families
        for one in (
            Increment(f"{family}:a", at(minute), 5, "eu", "ada"),
            Increment(f"{family}:a", at(minute), 7, "bad", "bob"),
            Increment(f"{family}:b", at(minute), 3, "bad", f"guest-{minute}"),
            Increment(f"{family}:b", at(minute), -1, "bad"),
            Increment(f"{family}:c", at(minute), 2, "bad", "carol", late_s=90 * MINUTE_S),
        )
    ]


def assert_exact(refusing: Refusing, *, minutes: bool = True) -> None:
    site = refusing.site
    for grain in ("1m", "1h", "1d") if minutes else ("1h", "1d"):
        assert stored_buckets(site, grain) == refusing.buckets(grain), grain
        assert site.windows(grain, "NOT endsWith(counter, ':')") == refusing.cells(grain), grain
    for grain in ("1h", "1d"):
        assert stored_weights(site, grain) == refusing.weights(grain), grain
    for table in REGISTERS if minutes else ("distinct_1h", "distinct_1d"):
        assert stored_registers(site, table) == refusing.registers(table), table


def assert_counts(refusing: Refusing) -> None:
    """With few counters in a wide sketch nothing collides, so an estimate is the truth."""
    reads = Reads(refusing.site.client, ManualClock(seconds(DAY + timedelta(days=1))))
    for counter in ("views:a", "views:b", "views:c", "likes:a"):
        for region in (None, "bad"):
            mine = [
                one
                for one in refusing.increments
                if one.counter == counter and region in {None, one.region}
            ]
            for mode in ("exact", "cached"):
                answer = counts.count(reads, Question(counter, None, None, region), mode, 60_000)
                assert answer.net == sum(one.delta for one in mine), (counter, region, mode)


def test_rows_of_every_table_are_counted_in_all_grains_and_outlast_finer_ones(
    site: Site, refusing: Refusing
) -> None:
    # One part was taken before, one is refused twice, the second time with more in it.
    assert refusing.count(*some(LONG, 1)) == []
    letters = refusing.count(*some(LONG, 1), *some(LONG, 2), refusing=ALL_TABLES)
    letters += refusing.count(*some(LONG, 2), *some(LONG, 61), refusing=ALL_TABLES)
    tables = {row.table for one in letters if (row := read_row(one.value))}
    assert tables == {f"tally.{table}" for table in ALL_TABLES}
    roll_up(site)
    assert stored_buckets(site, "1h") != refusing.buckets("1h")
    assert refusing.insert(letters).letters == len(letters)
    assert_exact(refusing)
    assert_counts(refusing)
    done = refusing.insert(reversed(letters))
    assert (done.letters, done.skipped) == (len(letters), {}), "again, and in another order"
    assert_exact(refusing)

    for later in (0, 4, 5):
        roll_up(site, later)
    eventually(lambda: not stored_buckets(site, "1m"), "minutes are gone")
    assert_exact(refusing, minutes=False)
    assert_counts(refusing)


def test_rows_of_an_open_slot_may_be_inserted_before_they_are_rolled_up(
    site: Site, refusing: Refusing
) -> None:
    letters = refusing.count(*some(LONG, 1), refusing=ALL_TABLES)
    assert refusing.insert(letters).letters == len(letters)
    assert stored_buckets(site, "1m") == refusing.buckets("1m")
    refusing.count(*some(LONG, 1), *some(LONG, 2))
    roll_up(site)
    assert_exact(refusing)
    assert_counts(refusing)


@pytest.mark.parametrize(
    ("families", "days_later", "kept"),
    [
        (LONG, 3, {"distinct_1h", "distinct_1d"}),
        (LONG, 7, {"distinct_1d"}),
        (SHORT, 2, {"distinct_1h", "distinct_1d"}),
        (SHORT, 6, {"distinct_1d"}),
    ],
)
def test_rows_whose_company_is_gone_are_left_as_letters(
    site: Site, refusing: Refusing, families: tuple[str, str], days_later: int, kept: set[str]
) -> None:
    """Partitions are dropped when all retention is over; rows of SHORT are deleted before that."""
    refusing.count(*some(SHORT, 1), *some(LONG, 1))
    letters = refusing.count(*some(families, 2), refusing=ALL_TABLES)
    for later in (0, days_later):
        roll_up(site, later)
    gone = ["1m"] if "distinct_1h" in kept else ["1m", "1h"]
    left = " + ".join(
        f"(SELECT count() FROM tally.{kind}_{grain} WHERE family IN {families})"
        for grain in gone
        for kind in ("cells", "frequency", "heavy", "distinct")
    )
    eventually(lambda: site.rows(f"SELECT {left}") == [(0,)], f"{gone} are gone")
    before = everything(site)
    tables = [row.table for one in letters if (row := read_row(one.value))]
    inserted = sum(table.removeprefix("tally.") in kept for table in tables)
    done = refusing.insert(letters)
    assert (done.letters, done.skipped) == (inserted, {GONE: len(letters) - inserted})
    assert inserted >= len(kept)
    assert everything(site) == before
    for table in REGISTERS:
        found = stored_registers(site, table)
        if table in kept:
            assert found == refusing.registers(table), table
        else:
            assert not any(name.partition(":")[0] in families for name, *_ in found), table
    assert site.rows("SELECT count() FROM tally.put_back FINAL") == [(inserted,)]


def everything(site: Site) -> list[object]:
    """All that is added up, in every table."""
    grains = ("1m", "1h", "1d")
    return [
        *(stored_buckets(site, grain) for grain in grains),
        *(stored_weights(site, grain) for grain in ("1h", "1d")),
        *(site.windows(grain) for grain in grains),
        site.totals(),
    ]


def test_days_of_members_that_are_gone_stay_gone(site: Site, refusing: Refusing) -> None:
    letters = refusing.count(*some(SHORT, 1), *some(LONG, 1), refusing=["distinct_1d"])
    roll_up(site)
    for later in (41, 42):
        roll_up(site, later)
    days = f"SELECT count() FROM tally.distinct_1d WHERE family IN {SHORT}"
    eventually(lambda: site.rows(days) == [(0,)], "days are gone")
    done = refusing.insert(letters)
    assert (done.letters, done.skipped) == (len(letters) // 2, {GONE: len(letters) // 2})
    days_of_long = {
        key: found
        for key, found in refusing.registers("distinct_1d").items()
        if key[0].partition(":")[0] in LONG
    }
    assert stored_registers(site, "distinct_1d") == days_of_long


def test_what_is_alone_in_its_hour_is_counted_even_when_the_days_minutes_are_gone(
    site: Site, refusing: Refusing
) -> None:
    tables = ("frequency_1m", "heavy_1m")
    refusing.count(*some(LONG, 1))
    alone = [
        Increment("views:d", at(125), 4, "bad"),
        Increment("views:d", at(125), 4, "eu"),
    ]
    letters = refusing.count(*alone, refusing=tables)
    roll_up(site)
    for later in (4, 5):
        roll_up(site, later)
    eventually(lambda: not stored_buckets(site, "1m"), "minutes are gone")
    assert refusing.insert(letters).letters == len(letters)
    roll_up(site, 6)
    for grain in ("1h", "1d"):
        assert stored_buckets(site, grain) == refusing.buckets(grain), grain
        assert stored_weights(site, grain) == refusing.weights(grain), grain


def test_all_of_a_family_may_have_been_refused_for_days(site: Site, refusing: Refusing) -> None:
    letters = refusing.count(*some(SHORT, 1), *some(LONG, 1), refusing=["distinct_1h"])
    refusing.site.client.command("TRUNCATE TABLE tally.distinct_1h")
    roll_up(site, 5)
    done = refusing.insert(letters)
    assert (done.letters, done.skipped) == (len(letters), {})
    bad = {
        key: found for key, found in refusing.registers("distinct_1h").items() if key[1] == "bad"
    }
    assert stored_registers(site, "distinct_1h") == bad


def test_tables_that_refuse_still_keep_their_letters_and_other_tables_do_not_wait(
    site: Site, refusing: Refusing
) -> None:
    letters = refusing.count(*some(LONG, 1), refusing=ALL_TABLES)
    roll_up(site)
    site.client.command("ALTER TABLE tally.heavy_1m ADD CONSTRAINT still CHECK region != 'bad'")
    site.client.command("ALTER TABLE tally.frequency_1m ADD CONSTRAINT still CHECK bucket % 2 = 0")
    rows = [row for one in letters if (row := read_row(one.value))]
    odd = sum(row.table == BUCKETS and row.bucket % 2 for row in rows)
    names = sum(row.table == HEAVIEST for row in rows)
    done = refusing.insert(letters)
    assert (done.letters, done.left) == (len(letters) - odd - names, odd + names)
    assert odd > 0
    reasons: Counter[str] = Counter()
    for reason, count in done.skipped.items():
        assert reason.startswith("ClickHouse refuses them still: ")
        assert "still" in reason.removeprefix("ClickHouse refuses them still: ")
        reasons["heavy" if "heavy_1m" in reason else "frequency"] += count
    assert reasons == {"heavy": names, "frequency": odd}
    for table in ("heavy_1m", "frequency_1m"):
        site.client.command(f"ALTER TABLE tally.{table} DROP CONSTRAINT still")
    assert refusing.insert(letters).letters == len(letters)
    assert_exact(refusing)


def test_an_older_row_of_the_heaviest_does_not_replace_a_newer_one(
    site: Site, refusing: Refusing
) -> None:
    older = refusing.count(*some(LONG, 1), refusing=["heavy_1m"])
    refusing.count(*some(LONG, 1))
    roll_up(site)
    assert refusing.insert(older).letters == len(older)
    site.client.command("OPTIMIZE TABLE tally.heavy_1m FINAL")
    for grain in ("1h", "1d"):
        site.client.command(f"TRUNCATE TABLE tally.heavy_{grain}")
    assert refusing.insert(older[:1]).letters == 1
    hour_s = NOON_S - NOON_S % HOUR_S
    assert stored_weights(site, "1h") == {
        key: weight for key, weight in refusing.weights("1h").items() if key[:2] == ("bad", hour_s)
    }
