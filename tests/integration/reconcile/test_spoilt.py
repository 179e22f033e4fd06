"""Whatever is spoilt in ClickHouse is found: four days were counted from a real log."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

import pytest

from pipeline.clickhouse import connect
from pipeline.clock import SystemClock
from pipeline.control.stored_retention import StoredRetention
from pipeline.reads.reads import Reads
from pipeline.reads.status import _reconciled
from pipeline.reconcile.leaders_pass import LeadersPass
from pipeline.reconcile.log_places import Places
from pipeline.reconcile.reconcile import Reconciler
from pipeline.reconcile.stored import Stored
from pipeline.rollup.rollup import Rollup
from schemas.addresses import ClickHouseAddress, KafkaAddress
from schemas.families import Families
from schemas.settings import Settings
from tests.integration.reconcile.site import DAYS, EVENTS, MINUTE_MS, RECORDS, SLOTS, Site

LAST = len(SLOTS) * RECORDS - 1
"""The last offset of each shard."""


def text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def day(at_ms: int) -> str:
    return text(at_ms)[:10]


SLOT = text(SLOTS[4])
WHERE = f"build = 1 AND shard = 1 AND slot = '{SLOT}'"


def test_what_was_counted_agrees_in_one_line(site: Site) -> None:
    line = f"log and ClickHouse agree through offset {LAST} (shard 0), {LAST} (shard 1)\n"
    assert site.verify(code=0).stdout == line
    assert site.verify("--log", code=0).stdout == line
    found = site.tally.json("verify")
    assert (found["agrees"], found["differences"]) == (True, [])
    assert found["through"] == {"0": LAST, "1": LAST}


def test_the_ledger_is_what_was_produced(site: Site) -> None:
    rows = site.client.query(
        "SELECT toUnixTimestamp(slot), shard, records, rows, added, taken, counted, p, n, "
        "duplicates, refused, unreadable, first, through FROM tally.slots FINAL "
        "ORDER BY shard, slot"
    ).result_rows
    deltas = [1 + n % 3 if n % 7 else -2 for n in range(EVENTS)]
    added = sum(delta for delta in deltas if delta > 0)
    taken = -sum(delta for delta in deltas if delta < 0)
    numbers = (RECORDS, EVENTS + 6, added + 6, taken, EVENTS + 2, added + 2, taken, 3, 1, 1)
    assert rows == [
        (slot_ms // 1000, shard, *numbers, number * RECORDS, (number + 1) * RECORDS - 1)
        for shard in range(2)
        for number, slot_ms in enumerate(SLOTS)
    ]


INSERT = "INSERT INTO tally.cells_1m (build, counter, region, window, slot, replica, shard, p) "
STRANGER = "cells of replica 'main', which nobody counted in this shard"
NO_ENTRY = "no entry in the ledger"
DOUBLED = (
    "INSERT INTO tally.cells_1m (build, counter, region, window, slot, replica, shard, p, n, "
    "duplicates, through) SELECT build, counter, region, window, slot, replica, shard, p * 2, n, "
    f"duplicates, through FROM tally.cells_1m WHERE {WHERE} AND counter = 'a:1'"
)
AFTER = text(SLOTS[4] + MINUTE_MS)

SPOILT = {
    "some cells deleted": (f"DELETE FROM tally.cells_1m WHERE {WHERE} AND counter = 'a:1'", "p"),
    "p doubled": (DOUBLED, "p"),
    "n altered": (
        f"ALTER TABLE tally.cells_1m UPDATE n = n + 1 WHERE {WHERE} AND counter = 'a:0'",
        "n",
    ),
    "duplicates altered": (
        f"ALTER TABLE tally.cells_1m UPDATE duplicates = 0 WHERE {WHERE}",
        "duplicates",
    ),
    "a whole day of cells dropped": (
        f"ALTER TABLE tally.cells_1m DROP PARTITION (1, '{day(DAYS[1])}')",
        "p",
    ),
    "an entry of the ledger deleted": (f"DELETE FROM tally.slots WHERE {WHERE}", NO_ENTRY),
    "a day of the ledger dropped": (
        f"ALTER TABLE tally.slots DROP PARTITION (1, '{day(DAYS[2])}')",
        NO_ENTRY,
    ),
    "rows under a shard that there is not": (
        f"{INSERT} SELECT 1, 'a:1', '', '{SLOT}', '{SLOT}', 'main', 99, 5",
        STRANGER,
    ),
    "rows of another shard": (
        f"{INSERT} SELECT 1, 'a:1', 'eu', '{SLOT}', '{SLOT}', 'main', 1, 5",
        "p",
    ),
    "rows in a slot that has none": (
        f"{INSERT} SELECT 1, 'a:1', '', '{SLOT}', '{AFTER}', 'main', 1, 5",
        NO_ENTRY,
    ),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_what_is_spoilt_is_found(site: Site, spoilt: str) -> None:
    statement, what = SPOILT[spoilt]
    site.run(statement)
    found = json.loads(site.verify("--json").stdout)
    assert not found["agrees"]
    assert what in {one["what"] for one in found["differences"]}


def test_the_same_rows_twice_are_no_difference(site: Site) -> None:
    site.count()
    site.verify(code=0)


@pytest.mark.parametrize("number", range(4))
def test_a_day_that_is_gone_from_cells_and_ledger_alike_breaks_the_chain(
    site: Site, number: int
) -> None:
    for table in ("cells_1m", "slots"):
        site.run(f"ALTER TABLE tally.{table} DROP PARTITION (1, '{day(DAYS[number])}')")
    found = json.loads(site.verify("--json").stdout)["differences"]
    assert {one["what"] for one in found} == {"last offset" if number == 3 else "first offset"}
    assert {one["shard"] for one in found} == {0, 1}


def test_a_ledger_that_says_what_cells_say_but_not_what_the_log_says_is_found_by_reading_it(
    site: Site,
) -> None:
    site.run(f"ALTER TABLE tally.cells_1m UPDATE p = p + 1 WHERE {WHERE} AND counter = 'a:1'")
    site.run(f"ALTER TABLE tally.slots UPDATE p = p + 1, added = added + 1 WHERE {WHERE}")
    site.verify(code=0)
    done = site.verify("--log")
    [line, _] = done.stdout.splitlines()
    assert line.startswith(f"shard 1, slot {SLOT.replace(' ', 'T')}.000Z, added: ledger ")
    assert site.verify("--log", "--since", text(SLOTS[5]), code=0)


def test_how_to_go_on_is_told_and_many_differences_are_counted(site: Site) -> None:
    site.run("TRUNCATE TABLE tally.cells_1m")
    lines = site.verify().stdout.splitlines()
    assert lines[0].startswith(f"shard 0, slot {text(SLOTS[0]).replace(' ', 'T')}.000Z, p: ledger ")
    # Of two shards: p, n and duplicates in each slot.
    assert lines[20] == f"and {2 * 3 * len(SLOTS) - 20} more differences: --json has all of them"
    assert "tally replay" in lines[21]


def settings_of(site: Site) -> Settings:
    return Settings(
        kafka=KafkaAddress(site.kafka), clickhouse=ClickHouseAddress(site.clickhouse), config=None
    )


def test_passes_come_to_every_day_and_what_differs_stands_until_it_is_mended(site: Site) -> None:
    passes = LeadersPass(settings_of(site), SystemClock())
    reads = Reads(connect(site.clickhouse), SystemClock())
    site.run(f"ALTER TABLE tally.cells_1m UPDATE n = n + 1 WHERE {WHERE} AND counter = 'a:0'")
    found = [len(passes.run().differences) for _ in range(10)]
    # The days before these four are kept as well, though nothing is in them.
    assert found[-1] == 1
    assert found == sorted(found)
    known = _reconciled(reads)
    assert (known.differences, known.through) == (1, {0: LAST, 1: LAST})
    assert known.example is not None
    assert known.example.startswith(f"shard 1, slot {SLOT.replace(' ', 'T')}.000Z, n: ledger ")
    site.run(f"ALTER TABLE tally.cells_1m UPDATE n = n - 1 WHERE {WHERE} AND counter = 'a:0'")
    assert passes.run().agrees
    known = _reconciled(reads)
    assert (known.differences, known.example) == (0, None)


def test_only_slots_that_a_build_counts_itself_are_compared(site: Site) -> None:
    site.run("TRUNCATE TABLE tally.slots")
    site.run(
        f"INSERT INTO tally.rebuilds (build, counts_from) SELECT 1, '{text(SLOTS[-1] + MINUTE_MS)}'"
    )
    site.verify(code=0)


def test_a_day_that_is_past_its_retention_goes_with_its_entries_and_is_not_compared(
    site: Site,
) -> None:
    document = '{"default": {"1m": "1d", "1h": "30d", "1d": "forever"}, "families": {}}'
    site.run(
        "INSERT INTO tally.retention "
        f"SELECT toDateTime64('2026-01-01 00:00:00', 3, 'UTC'), '{document}'"
    )
    clock = SystemClock()
    kept = StoredRetention(site.client, clock).holding()
    rollup = Rollup(site.client, 1, "main", kept, clock, longest_query_s=0)
    rollup.run(2)  # Confirms that days are final; the next pass goes by that.
    rolled = rollup.run(2)
    assert [str(one.day) for one in rolled.dropped] == [day(DAYS[0])]
    days = "SELECT DISTINCT toString(toDate(slot)) FROM tally.slots ORDER BY 1"
    left = site.client.query(days).result_rows
    assert [found for (found,) in left] == [day(one) for one in DAYS[1:]]
    site.verify(code=0)


class LogSince:
    """A log whose first records are of a moment."""

    def __init__(self, begins_ms: int) -> None:
        self._begins_ms = begins_ms

    def first_since(self, shards: Sequence[int], at_ms: int) -> dict[int, int]:
        return dict.fromkeys(shards, 0 if at_ms <= self._begins_ms else 1)


@pytest.mark.parametrize("days_before", [0, 2])
def test_where_minutes_are_kept_for_ever_it_begins_with_the_first_day_there_is(
    site: Site, monkeypatch: pytest.MonkeyPatch, days_before: int
) -> None:
    for_ever = Families.model_validate({"default": {"retention": {"1m": "forever"}}})
    monkeypatch.setattr(Stored, "retention", lambda _self: [(0, for_ever)])
    places = cast("Places", LogSince(DAYS[0] - days_before * 86_400_000))
    days = Reconciler(Stored(site.client, 1), places, 1, SystemClock()).scope().days()
    # What the log has and ClickHouse has not is looked for all the same.
    assert days[0][0] == (0 if days_before else DAYS[0])
    assert [start_ms for start_ms, _ in days[-4:]] == DAYS
