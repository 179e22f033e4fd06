"""Cells as workers flush them, exchanged pass by pass between two ClickHouses."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from threading import Barrier

import pytest

from pipeline.errors import OperatorError, TryAgainError
from pipeline.exchange.foreign import foreign_number
from pipeline.exchange.identity import identity_of, new_identity
from pipeline.exchange.side import Side
from schemas.addresses import ClickHouseAddress
from tests.integration.exchange.site import Cluster, assert_shows
from tests.integration.rollup.site import Cell, seconds

Two = tuple[Cluster, Cluster]

DAY = date(2026, 11, 10)
NOON_S = seconds(DAY, 12)


def cells(start: int, p: int, at_s: int = NOON_S, shard: int = 0) -> list[tuple[Cell, int, int]]:
    """Thirty cells of three counters in two regions and five minutes, one slot each."""
    return [
        (Cell(f"likes:{counter}", region, at_s + 60 * minute, at_s + 60 * minute, shard), p, start)
        for counter in range(start, start + 3)
        for region in ("eu", "us")
        for minute in range(5)
    ]


def test_both_sides_show_the_sum_of_both(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    there.site.flush(cells(1, 7))
    here.send(there)
    there.send(here)
    assert_shows(here, here, there)
    assert_shows(there, here, there)


def test_any_order_of_flushes_rollups_and_passes_converges(clusters: Two) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    for step in range(14):
        one, other = choose.sample(clusters, 2)
        match choose.choice(["flush", "flush", "roll up", "send", "send"]):
            case "flush":
                day = DAY + timedelta(days=choose.randrange(3))
                at_s = seconds(day, choose.randrange(24))
                one.site.flush(cells(choose.randrange(4), step + 1, at_s, choose.randrange(2)))
                one.site.flush_positions(dict.fromkeys(range(2), at_s))
            case "roll up":
                one.site.roll_up(2)
            case "send":
                one.send(other, check=choose.random() < 0.2)
    for one, other in (clusters, clusters[::-1]):
        one.send(other)
    for shown in clusters:
        assert_shows(shown, *clusters)


def test_cells_that_were_sent_are_not_sent_on(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    here.send(there)
    assert there.send(here).rows == 0
    assert_shows(here, here)


def test_repetition_changes_nothing_and_copies_nothing(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    here.site.roll_up(1)
    first = here.send(there, check=True)
    assert (first.declared, first.mended) == (True, [])
    again = here.send(there, check=True)
    assert (again.rows, again.declared, again.mended) == (0, False, [])
    assert_shows(there, here)


def test_a_pass_copies_what_came_since_the_last_one(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    here.send(there)
    here.site.flush(cells(0, 6)[:4])
    here.site.flush(cells(5, 1, seconds(DAY, 13)))
    passed = here.send(there)
    # Thirty-four cells, and in newest_windows a row for each of the two flushes.
    assert passed.rows == 34 + 2
    assert_shows(there, here)


def test_a_pass_after_merges_misses_nothing(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    here.send(there)
    here.site.flush(cells(0, 6))
    here.site.client.command("OPTIMIZE TABLE tally.cells_1m FINAL")
    here.send(there)
    assert_shows(there, here)


def test_every_kind_of_table_is_exchanged(clusters: Two) -> None:
    here, there = clusters
    here.site.client.command(
        "INSERT INTO tally.distinct_1h (build, counter, region, window, precision, slot_day, "
        "registers) VALUES (1, 'likes:1', 'eu', '2026-11-10 12:00:00', 11, '2026-11-10', {3: 4})"
    )
    here.site.client.command(
        "INSERT INTO tally.frequency_1m VALUES (1, 'tags', 64, 9, '2026-11-10 12:00:00', 'eu', "
        "'2026-11-10 12:00:00', 'main', 3, 17, 2)"
    )
    here.site.client.command(
        "INSERT INTO tally.heavy_1m VALUES (1, 'tags', '*', '2026-11-10 12:00:00', 'main', 3, 99, "
        "['tags:a', 'tags:b'], [9, 8], 4)"
    )
    here.site.client.command(
        "INSERT INTO tally.adjustments (build, counter, id, by, who, before, after, log_time) "
        "VALUES (1, 'likes:1', 'one', -4, 'me', NULL, 7, '2026-11-10 12:00:00')"
    )
    here.send(there)
    assert here.send(there, check=True).mended == []
    number = foreign_number(here.identity, 1)
    replica = f"{here.identity}/main"
    assert there.rows("SELECT build, counter, registers FROM tally.distinct_1h") == [
        (number, "likes:1", {3: 4})
    ]
    assert there.rows("SELECT build, bucket, replica, shard, p, n FROM tally.frequency_1m") == [
        (number, 9, replica, 3, 17, 2)
    ]
    assert there.rows("SELECT build, replica, counters, counts FROM tally.heavy_1m") == [
        (number, replica, ["tags:a", "tags:b"], [9, 8])
    ]
    assert there.rows("SELECT build, id, by, before, after FROM tally.adjustments") == [
        (number, "one", -4, None, 7)
    ]
    assert there.rows("SELECT counter, toString(net) FROM tally.totals") == [("likes:1", "-4")]
    assert there.rows("SELECT build, width FROM tally.frequency_widths GROUP BY ALL") == [
        (number, 64)
    ]


def test_sums_beyond_64_bits_are_exchanged(clusters: Two) -> None:
    here, there = clusters
    here.site.client.command(
        "INSERT INTO tally.cells_1d (build, counter, region, window, slot_day, replica, shard, p, "
        "n, duplicates) SELECT 1, 'likes:1', '', '2026-11-10 00:00:00', '2026-11-10', 'main', 0, "
        "pow2, 1, 0 FROM (SELECT bitShiftLeft(1::Int128, 90) AS pow2)"
    )
    here.send(there)
    assert there.rows("SELECT toString(net) FROM tally.totals") == [(str(2**90 - 1),)]


def test_late_rollups_and_cells_of_old_slots_are_found(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    here.site.flush_position(0, seconds(date(2026, 11, 12)))
    here.site.roll_up(1)
    here.send(there)
    # As `tally dead-letters --insert` does: a cell of a slot that was over, then its sums.
    here.site.flush([(Cell("likes:late", "eu", NOON_S, NOON_S, 0), 3, 0)])
    for table, start in (("cells_1h", NOON_S), ("cells_1d", seconds(DAY))):
        here.site.client.command(
            f"INSERT INTO tally.{table} (build, counter, region, window, slot_day, replica, shard, "
            f"p, n, duplicates) SELECT 1, 'likes:late', 'eu', fromUnixTimestamp({start}), "
            "'2026-11-10', 'main', 0, 3, 0, 0"
        )
    here.send(there)
    assert_shows(there, here)
    assert there.rows(
        "SELECT toString(sum(p)) FROM tally.cells_1d WHERE counter = 'likes:late'"
    ) == [("3",)]


def test_equal_identities_are_refused_until_one_is_made_anew(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    here.send(there)
    for cluster in (here, there):
        cluster.site.client.command(
            "INSERT INTO tally.identity SELECT 7, toUUID('00000000-0000-0000-0000-000000000001'), "
            "now64(3)"
        )
    with pytest.raises(OperatorError, match=r"one is a copy of the other.*--new-identity"):
        here.send(there)
    with pytest.raises(OperatorError, match="have the same identity"):
        here.send(here)
    new_identity(there.side)
    there.send(here)


def test_all_who_find_no_identity_at_once_make_the_same(clusters: Two) -> None:
    [here, _] = clusters
    sides = [Side(ClickHouseAddress(here.door.url), "a test") for _ in range(8)]
    together = Barrier(len(sides), timeout=30)

    def ask(side: Side) -> str:
        side.check_migrated()
        together.wait()
        return identity_of(side)

    with ThreadPoolExecutor(len(sides)) as threads:
        found = set(threads.map(ask, sides))
    assert found == {here.identity}
    new_identity(here.side)
    assert here.identity not in found


def test_a_number_of_another_cluster_is_refused(clusters: Two) -> None:
    here, there = clusters
    here.send(there)
    number = foreign_number(here.identity, 1)
    there.site.client.command(
        f"INSERT INTO tally.foreign_builds SELECT {number}, 'somebody else', 1, now64(3)"
    )
    with pytest.raises(OperatorError, match="more than one cluster"):
        here.send(there)


def test_what_was_lost_there_is_found_and_mended(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    here.site.roll_up(1)
    here.send(there)
    there.site.client.command("TRUNCATE TABLE tally.cells_1m")
    there.site.client.command(
        "ALTER TABLE tally.cells_1h DELETE WHERE counter = 'likes:1'",
        settings={"mutations_sync": 1},
    )
    passed = here.send(there, check=True)
    assert {place.table for place in passed.mended} == {"cells_1m", "cells_1h"}
    assert_shows(there, here)


def test_a_target_that_is_away_is_gone_on_with(clusters: Two) -> None:
    here, there = clusters
    here.site.flush(cells(0, 5))
    here.send(there)
    there.door.kill()
    here.site.flush(cells(0, 9))
    with pytest.raises(TryAgainError):
        here.send(there)
    there.door.start()
    here.send(there)
    assert_shows(there, here)


def test_large_places_are_copied_in_shares(clusters: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = clusters
    monkeypatch.setattr("pipeline.exchange.plan.ROWS_MAX", 7)
    here.site.flush(cells(0, 5))
    here.send(there)
    assert_shows(there, here)


def test_tables_that_differ_are_refused(clusters: Two) -> None:
    here, there = clusters
    there.site.client.command("ALTER TABLE tally.cells_1h ADD COLUMN more UInt8")
    with pytest.raises(OperatorError, match="cells_1h is another table"):
        here.send(there)


def test_a_target_without_tables_is_told_to_migrate(clusters: Two) -> None:
    here, there = clusters
    there.site.client.command("DROP TABLE tally.exchanged_parts SYNC")
    with pytest.raises(OperatorError, match="run tally migrate"):
        here.send(there)
