"""Rollups, drops and totals on a real ClickHouse, compared with a truth of our own."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from unittest.mock import patch

import clickhouse_connect
import pytest

from pipeline.errors import OperatorError, TryAgainError
from pipeline.rollup import steps as rollup_steps
from pipeline.rollup.rollup import Rollup
from pipeline.rollup.steps import ConfirmShards, Operation
from schemas.families import parse_families
from schemas.migrate import migrate
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, SLOT_S, Cell, Site, seconds
from tests.kit.waiting import eventually

FAMILIES = parse_families(
    """
[default]
retention = { "1m" = "3d", "1h" = "5d", "1d" = "forever" }
[families.short]
retention = { "1m" = "1d", "1h" = "2d", "1d" = "10d" }
[families.long]
retention = { "1m" = "4d", "1h" = "forever", "1d" = "forever" }
"""
)
COUNTERS = ["likes:a", "likes:it's", "short:a", "short:b", "long:a", "likes:", ":"]
SHARDS = 3
MUTATIONS = "SELECT count() FROM system.mutations WHERE NOT is_done"
PAUSED = range(4, 7)
"""Days in which one shard is not flushed."""
KILLED = 9


def some_cells(choose: random.Random, shard: int, log_s: int, count: int) -> list[Cell]:
    """Cells that a shard may hold at a log time, some of them late."""
    slot_s = log_s - log_s % SLOT_S
    cells = []
    for _ in range(count):
        late_s = choose.choice([0, 0, 0, 50 * MINUTE_S, 5 * HOUR_S, DAY_S])
        at_s = log_s - late_s
        counter, region = choose.choice(COUNTERS), choose.choice(["", "eu"])
        cells.append(Cell(counter, region, at_s - at_s % MINUTE_S, slot_s, shard))
    return cells


def flush_a_day(site: Site, choose: random.Random, shards: list[int], day: date) -> None:
    """A day of some shards in two flushes; a cell grows while its slot is open."""
    grown, last_s = [], {}
    for shard in shards:
        for hour in (0, 9, 23):
            last_s[shard] = seconds(day, hour, choose.randrange(60))
            cells = some_cells(choose, shard, last_s[shard], 12)
            grown += [(cell, choose.randrange(1, 50), choose.randrange(20)) for cell in cells]
    site.flush(grown)
    site.flush([(cell, p + choose.randrange(9), n + 1) for cell, p, n in grown[::2]])
    site.flush_positions(last_s)


def assert_exact(site: Site, today: date, families: set[str]) -> None:
    """Everything within its retention is right, and totals are right in any case."""
    assert site.totals() == site.truth.totals()
    assert site.short_totals() in (None, site.truth.totals())
    # Or what is past its retention could go between two questions that are compared.
    eventually(lambda: not site.rows(MUTATIONS)[0][0], "deletions are done")
    assert site.totals() == site.truth.totals()
    for grain, grain_s, days in (("1m", MINUTE_S, 1), ("1h", HOUR_S, 2), ("1d", DAY_S, 10)):
        since_s = seconds(today - timedelta(days=days))
        found = site.windows(grain, f"window >= toDateTime({since_s}, 'UTC')")
        assert found == site.truth.windows(grain_s, since_s), grain
    kept = {k: v for k, v in site.truth.windows(DAY_S).items() if not k[0].startswith("short:")}
    assert {k: v for k, v in site.windows("1d").items() if not k[0].startswith("short:")} == kept
    kept = {k: v for k, v in site.truth.windows(HOUR_S).items() if k[0].startswith("long:")}
    assert site.windows("1h", "family = 'long'") == kept
    ages = site.rows("SELECT DISTINCT family FROM tally.rollups FINAL WHERE grain = '1h'")
    assert families <= {family for (family,) in ages}


@pytest.mark.timeout(300)
def test_every_view_is_exact_while_weeks_are_rolled_up_and_dropped_and_the_server_is_killed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    folder = tmp_path_factory.mktemp("killed")
    server = ClickHouse(folder)
    try:
        site = Site(connect(server))
        migrate(site.client)
        first, days = date(2026, 1, 24), 20
        for number in range(days):
            today = first + timedelta(days=number)
            shards = [0, 1] if number in PAUSED else list(range(SHARDS))
            if number == PAUSED[-1] + 1:
                for missed in PAUSED:
                    flush_a_day(site, choose, [2], first + timedelta(days=missed))
            flush_a_day(site, choose, shards, today)
            if number == KILLED:
                with pytest.raises(TryAgainError), dying_before(server, ConfirmShards):
                    site.roll_up(SHARDS, FAMILIES)
                site.client.close()
                server = ClickHouse(folder)
                site.client = connect(server)
            if number % 2 or number >= days - 2:
                site.roll_up(SHARDS, FAMILIES)
            if number in {2, PAUSED[-1], PAUSED[-1] + 1, KILLED, days - 1}:
                assert_exact(site, today, {"likes", "short", "long", ""})
        assert site.short_totals() == site.truth.totals()
        # What was to be dropped is gone: minutes after 4 days, hours of most families after 5.
        assert len(site.partitions_of("cells_1m")) <= 7
        hours = site.rows("SELECT uniqExact(slot_day) FROM tally.cells_1h WHERE family != 'long'")
        assert hours[0][0] <= 7
        assert site.rows("SELECT count() FROM tally.cells_life WHERE family = 'short'") != [(0,)]
        january = "SELECT count() FROM tally.cells_1d WHERE slot_day < '2026-02-01' AND family "
        assert site.rows(january + "= 'short'") == [(0,)]
        assert site.rows(january + "= 'likes'") != [(0,)]
        site.client.close()
    finally:
        server.kill()


@contextmanager
def dying_before(server: ClickHouse, kind: type) -> Iterator[None]:
    """The server is killed in the middle of a pass: what comes before such an operation is done."""
    real = Rollup._do

    def do(self: Rollup, operation: Operation) -> object:
        if isinstance(operation, kind):
            server.kill()
        return real(self, operation)

    with patch.object(Rollup, "_do", do):
        yield


def connect(server: ClickHouse) -> clickhouse_connect.driver.client.Client:
    return clickhouse_connect.get_client(
        host=server.host, port=server.port, autogenerate_session_id=False, dedicated_pool=True
    )


DAY = date(2026, 3, 10)
LATER = DAY + timedelta(days=30)


def cell(counter: str = "likes:a", shard: int = 0, day: date = DAY, hour: int = 5) -> Cell:
    return Cell(counter, "", seconds(day, hour), seconds(day, hour), shard)


def test_a_shard_that_is_paused_for_days_keeps_its_days_from_being_dropped(site: Site) -> None:
    site.flush([(cell(shard=0), 5, 0), (cell(shard=1), 7, 0)])
    site.flush_position(0, seconds(LATER))
    site.flush_position(1, seconds(DAY, 5))
    for _ in range(2):
        assert site.roll_up(2).final_days == []
    assert site.partitions_of("cells_1m") == {"2026-03-10"}
    site.flush([(cell(shard=1), 9, 0), (cell(shard=1, hour=7), 1, 0)])
    site.flush_position(1, seconds(LATER))
    assert site.roll_up(2).final_days == [DAY]
    assert [drop.day for drop in site.roll_up(2).dropped] == [DAY]
    assert site.partitions_of("cells_1m") == set()
    assert site.totals() == {"likes:a": 15}
    assert site.windows("1h") == site.truth.windows(HOUR_S)


def test_a_partition_without_a_position_is_not_past_anything(site: Site) -> None:
    site.flush([(cell(), 5, 0)])
    site.flush_position(0, seconds(LATER))
    site.flush_position(1, seconds(LATER), replica="other")
    other_build = Site(site.client, build=2)
    other_build.flush_position(1, seconds(LATER))
    for _ in range(2):
        rolled = site.roll_up(2)
        assert (rolled.final_days, rolled.dropped) == ([], [])
    # An incarnation of the same replica counts on the same shard.
    site.flush_position(1, seconds(LATER), replica="main~1")
    assert site.roll_up(2).final_days == [DAY]


def test_a_partition_that_was_added_makes_days_become_final_anew(site: Site) -> None:
    site.flush([(cell(), 5, 0)])
    site.flush_position(0, seconds(LATER))
    assert site.roll_up(1, longest_query_s=3600).final_days == [DAY]
    assert site.roll_up(2).dropped == []
    site.flush([(cell(shard=1), 3, 0)])
    site.flush_position(1, seconds(LATER))
    assert site.roll_up(2).final_days == [DAY]
    assert [drop.day for drop in site.roll_up(2).dropped] == [DAY]
    assert site.totals() == {"likes:a": 8}


def test_nothing_is_dropped_before_the_longest_query_is_over(site: Site) -> None:
    site.flush([(cell(), 5, 0)])
    site.flush_position(0, seconds(LATER))
    for _ in range(3):
        assert site.roll_up(1, longest_query_s=3600).dropped == []
    assert [drop.day for drop in site.roll_up(1).dropped] == [DAY]


def test_only_what_is_open_is_rolled_up_again(site: Site) -> None:
    site.flush([(cell(hour=hour), 1, 0) for hour in range(10)])
    site.flush_position(0, seconds(DAY, 9))
    assert site.roll_up(1).open_cells == 10
    assert site.roll_up(1).open_cells == 1
    site.flush([(cell(hour=9), 4, 0), (cell(hour=11), 2, 0)])
    rolled = site.roll_up(1)
    # Two cells; the one that grew is stored twice until parts are merged.
    assert rolled.open_cells in {2, 3}
    assert rolled.statements == 2
    written = site.rows(
        "SELECT toHour(window), toInt64(max(p)) AS sum FROM tally.cells_1h GROUP BY 1 ORDER BY 1"
    )
    assert written == [*((hour, 1) for hour in range(9)), (9, 4), (11, 2)]
    assert site.rows("SELECT toInt64(max(p)) FROM tally.cells_1d") == [(15,)]


def test_a_family_that_cannot_be_rolled_up_does_not_stop_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup_steps, "BATCH_CELLS", 1)
    site.client.command("ALTER TABLE tally.cells_1h ADD CONSTRAINT poison CHECK counter != 'bad:a'")
    site.flush([(cell(name), 5, 0) for name in ("apples:a", "bad:a", "cherries:a")])
    site.flush_position(0, seconds(LATER))
    rolled = site.roll_up(1)
    assert [problem.split(":")[0] for problem in rolled.problems] == ["families bad to bad"]
    assert rolled.final_days == []
    ages = site.rows("SELECT DISTINCT family FROM tally.rollups ORDER BY family")
    assert ages == [("apples",), ("cherries",)]
    assert site.roll_up(1).open_cells == 3
    site.client.command("ALTER TABLE tally.cells_1h DROP CONSTRAINT poison")
    assert site.roll_up(1).final_days == [DAY]
    assert site.rows("SELECT count() FROM tally.cells_1h FINAL") == [(3,)]


def test_a_large_family_is_rolled_up_in_shares(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup_steps, "BATCH_CELLS", 10)
    site.flush([(cell(f"likes:{number}"), number + 1, 1) for number in range(35)])
    site.flush_position(0, seconds(LATER))
    assert site.roll_up(1).statements == 2 * 4
    site.roll_up(1)
    assert site.partitions_of("cells_1m") == set()
    assert site.totals() == site.truth.totals()
    assert site.windows("1h") == site.truth.windows(HOUR_S)


def test_families_may_be_named_with_any_characters(site: Site) -> None:
    names = ["it's", "back\\slash", "ta\tb", "new\nline", "100%", "{x}", "näme", "日本", "a, 'b']"]
    site.flush([(cell(f"{name}:x"), 2, 0) for name in names])
    site.flush_position(0, seconds(LATER))
    text = "[default]\nretention = { '1m' = '40d' }\n" + "".join(
        f"[families.{json.dumps(name)}]\nretention = {{ '1m' = '2d' }}\n" for name in names[1:]
    )
    families = parse_families(text)
    for _ in range(2):
        site.roll_up(1, families)
    eventually(lambda: not site.rows(MUTATIONS)[0][0], "deletions are done")
    assert site.rows("SELECT counter FROM tally.cells_1m") == [("it's:x",)]
    assert site.windows("1h") == site.truth.windows(HOUR_S)
    rolled = site.rows("SELECT DISTINCT family FROM tally.rollups")
    assert {family for (family,) in rolled} == set(names)


def test_sums_beyond_64_bits_are_exact(site: Site) -> None:
    much = 2**63 - 1
    site.flush([(cell(hour=hour), much, 1) for hour in (3, 4, 5)])
    # Another minute of an hour, and the same minute in another shard.
    site.flush([(cell()._replace(window_s=seconds(DAY, 5, 1)), much, 0), (cell(shard=1), much, 0)])
    site.flush_position(0, seconds(LATER))
    site.flush_position(1, seconds(LATER))
    assert site.totals() == {"likes:a": 5 * much - 3}
    for _ in range(2):
        site.roll_up(2)
    assert site.partitions_of("cells_1m") == set()
    assert site.totals() == {"likes:a": 5 * much - 3}
    assert site.windows("1h") == site.truth.windows(HOUR_S)


def test_duplicates_are_rolled_up_too(site: Site) -> None:
    site.flush([(cell(hour=hour), 1, 0) for hour in (3, 4)], duplicates=3)
    site.flush_position(0, seconds(LATER))
    for _ in range(2):
        site.roll_up(1)
    assert site.rows("SELECT toInt64(sum(duplicates)) FROM tally.cells_1d FINAL") == [(6,)]
    assert site.rows("SELECT toInt64(sum(duplicates)) FROM tally.merged_life") == [(6,)]


def test_a_refused_statement_outside_of_rolling_up_is_the_operators(site: Site) -> None:
    site.client.command("DROP TABLE tally.rolled_shards SYNC")
    with pytest.raises(OperatorError, match="refuses to roll up"):
        site.roll_up(1)
