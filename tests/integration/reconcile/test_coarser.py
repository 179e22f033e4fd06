"""Hours and days that are not what the ledger says are found; a rollup under way is not told."""

import asyncio
import json
from typing import Any

import pytest

from pipeline.clock import SystemClock
from pipeline.reconcile.leaders_pass import LeadersPass
from pipeline.rollup.rollup import Rollup
from pipeline.shard import Shard
from schemas.addresses import ClickHouseAddress, KafkaAddress
from schemas.families import Families
from schemas.settings import Settings
from tests.integration.reconcile.site import DAYS, EVENTS, RECORDS, SHARDS, SLOTS, Site
from tests.integration.reconcile.test_spoilt import day

DELTAS = [1 + n % 3 if n % 7 else -2 for n in range(EVENTS)]
ADDED = 3 * (sum(delta for delta in DELTAS if delta > 0) + 2)
"""Of a shard in a day, which has three slots, each with two ids that count."""

WHERE = f"build = 1 AND shard = 1 AND slot_day = '{day(DAYS[1])}'"
COLUMNS = "build, counter, region, window, slot_day, replica, shard, p, n, duplicates"
TEN_TIMES = (
    f"INSERT INTO tally.cells_1d ({COLUMNS}) SELECT build, counter, region, "
    "toStartOfDay(window) AS start, slot_day, replica, shard, sum(p) * 10, sum(n), "
    f"sum(duplicates) FROM tally.merged_1m WHERE {WHERE} "
    "GROUP BY build, counter, region, start, slot_day, replica, shard"
)


def rollup(site: Site) -> None:
    Rollup(site.client, 1, "main", Families(), SystemClock(), longest_query_s=0).run(SHARDS)


def differing(site: Site) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(site.verify("--json").stdout)["differences"]
    assert {one["slot_ms"] for one in found} == {DAYS[1]}
    return found


def told(site: Site) -> set[tuple[int, str, str]]:
    return {(one["shard"], one["grain"], one["what"]) for one in differing(site)}


@pytest.mark.parametrize("is_rolled_up", [False, True])
def test_a_day_times_ten_is_found(site: Site, is_rolled_up: bool) -> None:
    if is_rolled_up:
        rollup(site)
        site.verify(code=0)
    site.run(TEN_TIMES)
    [line, _] = site.verify().stdout.splitlines()
    assert line == (f"shard 1, day {day(DAYS[1])}, 1d p: ledger {ADDED}, ClickHouse {10 * ADDED}")


def test_an_hour_doubled_is_found_in_hours_and_in_days(site: Site) -> None:
    rollup(site)
    site.run(
        f"INSERT INTO tally.cells_1h ({COLUMNS}) SELECT * REPLACE (p * 2 AS p) "
        f"FROM tally.cells_1h WHERE {WHERE} AND counter = 'a:1'"
    )
    assert told(site) == {(1, "1h", "p"), (1, "1d", "p")}


@pytest.mark.parametrize("number", ["n", "duplicates"])
def test_every_number_of_hours_is_compared(site: Site, number: str) -> None:
    rollup(site)
    site.run(f"ALTER TABLE tally.cells_1h UPDATE {number} = {number} + 1 WHERE {WHERE}")
    assert told(site) == {(1, "1h", number), (1, "1d", number)}


@pytest.mark.parametrize("grain", ["1h", "1d"])
def test_what_is_missing_from_a_rollup_is_told_when_nobody_will_roll_it_up_again(
    site: Site, grain: str
) -> None:
    """Answers are the same meanwhile: minutes are there."""
    rollup(site)
    site.run(f"DELETE FROM tally.cells_{grain} WHERE {WHERE} AND counter = 'a:1'")
    assert told(site) == {(1, grain, "p rolled up"), (1, grain, "n rolled up")}
    site.run("TRUNCATE TABLE tally.rolled_shards")
    site.verify(code=0)


def test_hours_that_are_past_their_retention_are_not_missed(site: Site) -> None:
    rollup(site)
    document = '{"default": {"1m": "7d", "1h": "1d", "1d": "forever"}, "families": {}}'
    site.run(
        "INSERT INTO tally.retention "
        f"SELECT toDateTime64('2026-01-01 00:00:00', 3, 'UTC'), '{document}'"
    )
    site.run(f"DELETE FROM tally.cells_1h WHERE slot_day = '{day(DAYS[0])}'")
    site.verify(code=0)


def test_a_day_in_the_midst_of_a_rollup_is_no_difference(site: Site) -> None:
    for table in ("cells_1m", "slots", "positions"):
        site.run(f"TRUNCATE TABLE tally.{table}")
    shards = [Shard(number, replica="main") for number in range(SHARDS)]
    for shard in shards:
        site.read(shard, 4 * RECORDS + 20)
    asyncio.run(site.flush(shards))
    rollup(site)
    for shard in shards:
        site.read(shard, len(SLOTS) * RECORDS)
    asyncio.run(site.flush(shards))
    # Hours and days of the second day have half of it; of the third there is nothing yet.
    rolled = f"SELECT sum(p) FROM tally.cells_1d FINAL WHERE {WHERE}"
    assert 0 < site.client.query(rolled).result_rows[0][0] < ADDED
    site.verify(code=0)
    # Hours are written before days.
    site.run(f"DELETE FROM tally.cells_1d WHERE {WHERE}")
    site.verify(code=0)
    rollup(site)
    site.verify(code=0)


def test_days_of_a_shard_that_nobody_counts_are_found(site: Site) -> None:
    values = f"1, 'a:1', '', '{day(DAYS[1])}', '{day(DAYS[1])}', 'main', 99, 5, 0, 0"
    site.run(f"INSERT INTO tally.cells_1d ({COLUMNS}) SELECT {values}")
    [found] = differing(site)
    assert (found["shard"], found["grain"], found["clickhouse"]) == (99, "1d", 5)


def test_the_leader_comes_to_it_in_turn_and_it_stands(site: Site) -> None:
    site.run(TEN_TIMES)
    settings = Settings(
        kafka=KafkaAddress(site.kafka), clickhouse=ClickHouseAddress(site.clickhouse), config=None
    )
    passes = LeadersPass(settings, SystemClock())
    found = [len(passes.run().differences) for _ in range(10)]
    assert found[-1] == 1
    assert found == sorted(found)


def test_a_large_day_is_summed_in_shares(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.reconcile.stored.SHARE_ROWS", 7)
    site.run(TEN_TIMES)
    settings = Settings(
        kafka=KafkaAddress(site.kafka), clickhouse=ClickHouseAddress(site.clickhouse), config=None
    )
    passes = LeadersPass(settings, SystemClock())
    texts = {one.text() for _ in range(10) for one in passes.run().differences}
    assert texts == {f"shard 1, day {day(DAYS[1])}, 1d p: ledger {ADDED}, ClickHouse {10 * ADDED}"}
