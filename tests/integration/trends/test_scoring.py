"""Trends scored from cells in a real ClickHouse: by minutes that are over, the same each time."""

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from pipeline.clock import SystemClock
from pipeline.errors import TryAgainError
from pipeline.rules import CountingRules, FamilyRules, TrendRules
from pipeline.trends import reading
from pipeline.trends.reading import TrendReads
from pipeline.trends.scoring import TrendScoring, TrendsScored
from pipeline.trends.transitions import Transition
from schemas.families import Families, parse_families
from sketches.distinct import Distinct
from sketches.frequency import Frequency
from tests.integration.rollup.site import MINUTE_S, REPLICA, Cell, Site

W_S = 1_773_144_000  # 2026-03-10 12:00
SHARDS = 2
STEADY_MINUTES = 100
REGIONS = ("eu", "us")
GATES = TrendRules(min_count=50, min_uniques=10, min_regions=2)
RULES = CountingRules(3, FamilyRules(trends=GATES))


class Trends:
    """A site's trends, with the events that were sent."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.sent: list[Transition] = []
        self.fails = False

    def send(self, found: Sequence[Transition]) -> None:
        if self.fails:
            raise TryAgainError("Kafka is away")
        self.sent += found

    def run(self, rules: CountingRules = RULES) -> TrendsScored:
        scoring = TrendScoring(
            self.site.client,
            self.site.build,
            REPLICA,
            Families(),
            send=self.send,
            clock=SystemClock(),
        )
        return scoring.run(SHARDS, rules)

    def told(self) -> list[tuple[str, str, str]]:
        return [(one.transition, one.region, one.counter) for one in self.sent]

    def trending(self, region: str = "*", view: str = "trending") -> dict[str, tuple[int, str]]:
        rows = self.site.rows(
            f"SELECT counter, rank, kind FROM tally.{view} "
            f"WHERE family = 'tag' AND region = '{region}' AND kind != 'top'"
        )
        return {counter: (rank, kind) for counter, rank, kind in rows}


def minute(window_s: int, counts: dict[str, int], late_s: int = 0) -> list[tuple[Cell, int, int]]:
    """Cells of one minute, a shard and a region to each."""
    return [
        (Cell(f"tag:{name}", region, window_s, window_s + late_s, shard), count, 0)
        for name, count in counts.items()
        for shard, region in enumerate(REGIONS)
    ]


def background(window_s: int) -> dict[str, int]:
    rng = random.Random(window_s)
    return {f"usual-{number}": 15 + rng.randrange(10) for number in range(30)}


@pytest.fixture
def trends(site: Site) -> Trends:
    """A steady stream up to W; log time is two minutes further, so W is over."""
    cells = [
        cell
        for age in range(STEADY_MINUTES)
        for cell in minute(W_S - age * MINUTE_S, background(W_S - age * MINUTE_S))
    ]
    site.flush(cells)
    advance(site, 0)
    return Trends(site)


def advance(site: Site, minutes: int) -> None:
    """Every shard's log time is past the minute W + `minutes` and the one after it."""
    log_s = W_S + (minutes + 2) * MINUTE_S
    site.flush_positions(dict.fromkeys(range(SHARDS), log_s))


def burst(site: Site, minutes: int, count: int = 300) -> None:
    window_s = W_S + minutes * MINUTE_S
    site.flush(minute(window_s, {**background(window_s), "burst": count}))
    advance(site, minutes)


def test_a_burst_is_found_when_its_minute_is_over_and_told_once(trends: Trends) -> None:
    assert trends.run().windows == 1
    assert (trends.trending(), trends.sent) == ({}, [])
    burst(trends.site, 1)
    assert trends.run().windows == 1
    for region in ("*", *REGIONS):
        assert list(trends.trending(region)) == ["tag:burst"]
    assert sorted(trends.told()) == [("enter", region, "tag:burst") for region in ("*", *REGIONS)]
    assert trends.run().windows == 0
    assert len(trends.sent) == 3


def test_a_minute_is_not_over_before_every_shard_is_past_it(trends: Trends) -> None:
    trends.run()
    site = trends.site
    site.flush(minute(W_S + MINUTE_S, {"burst": 300}))
    site.flush_position(0, W_S + 10 * MINUTE_S)
    assert trends.run().windows == 0
    advance(site, 1)
    assert trends.run().windows == 1


def test_the_minute_that_is_not_over_is_scored_provisionally_and_lets_nobody_in(
    trends: Trends,
) -> None:
    trends.run()
    site = trends.site
    open_s = W_S + 2 * MINUTE_S
    site.flush(minute(W_S + MINUTE_S, background(1)) + minute(open_s, {"burst": 900}))
    assert trends.run().windows == 0
    assert (trends.trending(), trends.sent) == ({}, [])
    assert list(trends.trending(view="trending_now")) == ["tag:burst"]
    [(window_s,)] = site.rows("SELECT DISTINCT toUnixTimestamp(window) FROM tally.trending_now")
    assert window_s == open_s


def test_what_comes_late_changes_no_score(trends: Trends) -> None:
    site = trends.site
    burst(site, 1)
    trends.run()
    first = site.rows("SELECT * EXCEPT scored_at FROM tally.trend_scores FINAL ORDER BY ALL")
    ids = [one.id for one in trends.sent]
    site.flush(minute(W_S + MINUTE_S, {"burst": 9_000, "late": 9_000}, late_s=2 * MINUTE_S))
    for table in ("trend_scores", "trend_windows", "trend_families"):
        site.client.command(f"TRUNCATE TABLE tally.{table}")
    trends.sent.clear()
    trends.run()
    again = site.rows("SELECT * EXCEPT scored_at FROM tally.trend_scores FINAL ORDER BY ALL")
    assert again == first
    assert [one.id for one in trends.sent] == ids
    assert ids


def test_a_pass_that_dies_before_it_confirms_is_repeated_with_the_same_events(
    trends: Trends,
) -> None:
    trends.run()
    burst(trends.site, 1)
    trends.fails = True
    with pytest.raises(TryAgainError):
        trends.run()
    assert trends.trending() == {}
    trends.fails = False
    assert trends.run().windows == 1
    assert len(trends.sent) == 3


def test_minutes_that_were_missed_are_scored_one_after_the_other(trends: Trends) -> None:
    trends.run()
    for age in range(1, 6):
        burst(trends.site, age, 300 if age == 2 else 0)
    assert trends.run().windows == 5
    entered = [one.window_ms // 1000 for one in trends.sent if one.transition == "enter"]
    assert set(entered) == {W_S + 2 * MINUTE_S}


def test_it_fades_when_nothing_happens(trends: Trends) -> None:
    trends.run()
    burst(trends.site, 1)
    for age in range(2, 36):
        window_s = W_S + age * MINUTE_S
        trends.site.flush(minute(window_s, background(window_s)))
    advance(trends.site, 35)
    while trends.run().windows:
        pass
    assert trends.trending() == {}
    left = [one for one in trends.sent if one.transition == "leave"]
    assert {one.region for one in left} == {"*", *REGIONS}
    assert {one.entered_ms for one in left} == {(W_S + MINUTE_S) * 1000}


def test_a_family_that_falls_silent_lets_everybody_go(trends: Trends) -> None:
    trends.run()
    burst(trends.site, 1)
    trends.run()
    advance(trends.site, 35)
    while trends.run().windows:
        pass
    assert len([one for one in trends.sent if one.transition == "leave"]) == 3


def members(site: Site, found: dict[tuple[str, int], list[str]]) -> None:
    """Registers of minutes of log time, as a worker writes them, of the same members everywhere."""
    rows = []
    for (counter, window_s), names in found.items():
        sketch = Distinct(12)
        sketch.add_many(names)
        registers = list(zip(*(column.tolist() for column in sketch.registers()), strict=True))
        day = datetime.fromtimestamp(window_s, UTC).date()
        rows += [(1, counter, region, window_s, 12, day, registers) for region in REGIONS]
    names_of = ("build", "counter", "region", "window", "precision", "slot_day", "registers")
    types = (
        *(pa.uint32(), pa.string(), pa.string(), pa.int64(), pa.uint8(), pa.date32()),
        pa.map_(pa.uint16(), pa.uint8()),
    )
    columns = zip(names_of, zip(*rows, strict=True), types, strict=True)
    table = pa.table({name: pa.array(values, of) for name, values, of in columns})
    window = table["window"].cast(pa.timestamp("s", "UTC"))
    site.client.insert_arrow("tally.trend_members", table.set_column(3, "window", window))


@pytest.mark.parametrize(("who", "trends_then"), [(200, ["tag:burst"]), (2, [])])
def test_many_members_trend_and_a_bot_does_not(
    trends: Trends, who: int, trends_then: list[str]
) -> None:
    usual = {
        (f"tag:usual-{number}", W_S - age * MINUTE_S): [f"m-{age}-{number}-{n}" for n in range(15)]
        for age in range(STEADY_MINUTES)
        for number in range(3)
    }
    fans = [f"fan-{number}" for number in range(who)]
    members(trends.site, {**usual, ("tag:burst", W_S + MINUTE_S): fans})
    trends.run()
    burst(trends.site, 1)
    trends.run()
    assert list(trends.trending()) == trends_then


def test_trends_that_are_switched_off_are_not_scored(trends: Trends) -> None:
    trends.run()
    burst(trends.site, 1)
    off = CountingRules(4, families={"tag": FamilyRules(trends=TrendRules(enabled=False))})
    assert trends.run(off).windows == 1
    assert trends.trending() == {}


def sketched_minute(window_s: int, counts: dict[str, int]) -> tuple[list[Any], list[Any]]:
    """Rows of tally.frequency_1m and tally.heavy_1m, as a worker flushes them."""
    window = datetime.fromtimestamp(window_s, UTC)
    buckets, heavy = [], []
    for shard, region in enumerate(REGIONS):
        sketch = Frequency.for_error(0.002)
        sketch.add_many([f"flat:{name}" for name in counts], list(counts.values()))
        added = sketch.counters()[0].ravel()
        key = [1, "flat", sketch.width]
        for bucket in added.nonzero()[0].tolist():
            place = [window, region, window, REPLICA, shard]
            buckets.append([*key, bucket, *place, int(added[bucket]), 0])
        names = sorted(counts, key=lambda name: -counts[name])
        heaviest = [[f"flat:{name}" for name in names], [counts[name] for name in names]]
        heavy.append([1, "flat", "*", window, REPLICA, shard, 1, *heaviest, 0])
    return buckets, heavy


def flush_sketched(site: Site, minutes: Iterable[tuple[int, dict[str, int]]]) -> None:
    buckets, heavy, cells = [], [], []
    for window_s, counts in minutes:
        more = sketched_minute(window_s, counts)
        buckets += more[0]
        heavy += more[1]
        total = sum(counts.values())
        cells += [(Cell("flat:", "", window_s, window_s, s), total, 0) for s in range(SHARDS)]
    site.flush(cells)
    names = [
        "build",
        "family",
        "width",
        "bucket",
        "window",
        "region",
        "slot",
        "replica",
        "shard",
        "p",
        "n",
    ]
    site.client.insert("tally.frequency_1m", buckets, column_names=names)
    names = [
        "build",
        "family",
        "region",
        "slot",
        "replica",
        "shard",
        "through",
        "counters",
        "counts",
        "lost",
    ]
    site.client.insert("tally.heavy_1m", heavy, column_names=names)


def test_counters_without_cells_trend_as_well(trends: Trends) -> None:
    site = trends.site
    flush_sketched(
        site,
        ((W_S - age * MINUTE_S, background(W_S - age * MINUTE_S)) for age in range(STEADY_MINUTES)),
    )
    rules = CountingRules(
        4, FamilyRules(trends=GATES), {"flat": FamilyRules(sketched=True, trends=GATES)}
    )
    trends.run(rules)
    assert trends.sent == []
    later_s = W_S + MINUTE_S
    flush_sketched(site, [(later_s, {**background(later_s), "burst": 300})])
    advance(site, 1)
    trends.run(rules)
    rows = site.rows(
        "SELECT region, counter, observed FROM tally.trending "
        "WHERE family = 'flat' AND kind != 'top' ORDER BY region"
    )
    assert [row[:2] for row in rows] == [(region, "flat:burst") for region in ("*", *REGIONS)]
    assert all(300 * (1 + (region == "*")) <= observed for region, _, observed in rows)


def test_scores_go_with_the_hours_of_their_day_and_members_with_its_minutes(trends: Trends) -> None:
    site, day_s = trends.site, 86_400
    members(site, {("tag:usual-1", W_S): ["ann"]})
    trends.run()
    families = parse_families('[default]\nretention = { "1m" = "2d", "1h" = "20d" }')
    for later, left in ((5, {"trend_scores"}), (30, set())):
        site.flush_positions(dict.fromkeys(range(SHARDS), W_S + later * day_s))
        for _ in range(3):
            site.roll_up(SHARDS, families)
        tables = ("trend_members", "trend_scores")
        assert {table for table in tables if site.partitions_of(table)} == left


def test_of_two_rankings_of_a_minute_the_last_that_was_confirmed_counts(trends: Trends) -> None:
    trends.run()
    burst(trends.site, 1)
    trends.run()
    assert list(trends.trending()) == ["tag:burst"]
    trends.site.client.command(
        f"ALTER TABLE tally.trend_windows DELETE WHERE window = toDateTime({W_S + MINUTE_S}) "
        "SETTINGS mutations_sync = 1"
    )
    strict = CountingRules(5, FamilyRules(trends=TrendRules(min_score=1e6, k=1)))
    assert trends.run(strict).windows == 1
    ranks = trends.site.rows("SELECT rank FROM tally.trending WHERE region = '*'")
    assert ranks == [(1,)]
    assert trends.trending() == {}


def test_a_look_at_the_open_minute_that_finds_nobody_replaces_the_last_one(trends: Trends) -> None:
    trends.run()
    trends.site.flush(minute(W_S + 2 * MINUTE_S, {"burst": 900}))
    trends.run()
    assert list(trends.trending(view="trending_now")) == ["tag:burst"]
    off = CountingRules(6, FamilyRules(trends=TrendRules(enabled=False)))
    trends.run(off)
    assert trends.site.rows("SELECT * FROM tally.trending_now") == []


def test_regions_past_a_bound_count_only_in_all_of_them(
    trends: Trends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "REGIONS_MAX", 1)
    trends.run()
    site = trends.site
    window_s = W_S + MINUTE_S
    cells = minute(window_s, {**background(window_s), "burst": 300})
    site.flush([*cells, (Cell("tag:burst", "eu", window_s, window_s, 1), 5, 0)])
    advance(site, 1)
    trends.run(CountingRules(3, FamilyRules(trends=TrendRules(min_count=50, min_regions=1))))
    [(found,)] = site.rows("SELECT arraySort(groupUniqArray(region)) FROM tally.trending")
    assert found == ["*", "eu"]
    [(observed,)] = site.rows(
        "SELECT observed FROM tally.trending WHERE region = '*' AND counter = 'tag:burst'"
    )
    assert observed == 605


def test_only_so_many_counters_of_a_family_are_looked_at_those_with_the_most(
    trends: Trends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CANDIDATES_MAX", 5)
    monkeypatch.setattr(reading, "SKETCHED_MAX", 4)
    site, later_s = trends.site, W_S + MINUTE_S
    counts = {f"{number:02}": 10_000 * number for number in range(1, 13)}
    site.flush(minute(later_s, counts))
    flush_sketched(site, [(later_s, counts)])
    rules = CountingRules(
        4, FamilyRules(trends=GATES), {"flat": FamilyRules(sketched=True, trends=GATES)}
    )
    reads = TrendReads(site.client, site.build, REPLICA)
    found = reads.families(later_s, later_s, rules)
    for family, least in (("tag", 8), ("flat", 9)):
        heaviest = [f"{family}:{number:02}" for number in range(least, 13)]
        assert sorted(found[family]["*"].names) == heaviest
    monkeypatch.setattr(reading, "FAMILIES_MAX", 1)
    site.flush(minute(later_s, {"more": 10**9}))
    assert [*found, *reads.families(later_s, later_s, rules)] == ["flat", "tag", "tag"]
