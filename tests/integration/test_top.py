"""Rankings from cells in a real ClickHouse, by SQL and by reads, against plain dictionaries."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import clickhouse_connect
import pytest
from clickhouse_connect.driver import Client

from pipeline.errors import BadInputError, OperatorError
from pipeline.reads.family_windows import Period
from pipeline.reads.reads import Reads
from pipeline.reads.spans import window_text
from pipeline.reads.top import TopAnswer, rank, top
from schemas.families import parse_families
from schemas.migrate import migrate
from schemas.rules import Grain
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, SLOT_S, Cell, Site, seconds
from tests.kit.clocks import ManualClock
from tests.kit.tables import empty_tables

TODAY = date(2026, 3, 20)
NOW_S = seconds(TODAY, 12, 30) + 20
GRAINS: dict[Grain, int] = {"1m": MINUTE_S, "1h": HOUR_S, "1d": DAY_S}
FAMILIES = parse_families('[default]\nretention = { "1m" = "2d", "1h" = "5d" }')
REGIONS = ["", "eu", "us"]
SHARDS = 2

Place = tuple[int, str, int]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as process:
        yield process


@pytest.fixture
def site(door: ClickHouse) -> Iterator[Site]:
    """Empty, for a test to fill."""
    client = connect(door)
    empty_tables(client)
    yield Site(client)
    client.close()


@pytest.fixture(scope="module")
def rolled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A day and a half, rolled up, and more in it since."""
    with ClickHouse(tmp_path_factory.mktemp("rolled")) as process:
        site = Site(connect(process))
        migrate(site.client)
        scatter(site, days=1.5, count=2500)
        site.roll_up(SHARDS)
        scatter(site, days=1.5, count=500, seed=8)
        yield site
        site.client.close()


def connect(door: ClickHouse) -> Client:
    return clickhouse_connect.get_client(
        host=door.host, port=door.port, autogenerate_session_id=False
    )


def cell(name: str, ago_s: int = 0, region: str = "", shard: int = 0, late_s: int = 0) -> Cell:
    at_s = NOW_S - ago_s
    slot_s = min(at_s + late_s, NOW_S)
    return Cell(name, region, at_s - at_s % MINUTE_S, slot_s - slot_s % SLOT_S, shard)


def scatter(site: Site, days: float, count: int, seed: int = 7) -> None:
    """Cells of two families with few counters, so that many counts are equal, some of it late."""
    print(f"seed {seed}")
    choose = random.Random(seed)
    cells = [
        (
            cell(
                f"{choose.choice(['tag', 'tags'])}:{choose.randrange(12)}",
                choose.randrange(int(days * DAY_S)),
                choose.choice(REGIONS),
                choose.randrange(SHARDS),
                choose.choice([0, 0, 3 * HOUR_S]),
            ),
            choose.randrange(1, 5),
            choose.randrange(4),
        )
        for _ in range(count)
    ]
    site.flush(cells)
    flushed(site)


def flushed(site: Site) -> None:
    moment = datetime.fromtimestamp(NOW_S, UTC)
    names = ["build", "replica", "shard", "flushed_through", "log_time", "flushed_at"]
    rows = [[1, "main", shard, 700, moment, moment] for shard in range(SHARDS)]
    site.client.insert("tally.positions", rows, column_names=names)


def reads_of(site: Site) -> Reads:
    return Reads(site.client, ManualClock(NOW_S + 1))


def truth(
    site: Site, since_s: int, until_s: int, region: str = "*", family: str = "tag"
) -> list[Place]:
    """The whole ranking, by hand."""
    sums: Counter[str] = Counter()
    for one, (p, n) in site.truth.cells.items():
        name, _, key = one.counter.partition(":")
        wanted = region in {"*", one.region} and since_s <= one.window_s < until_s
        if name == family and key and wanted:
            sums[one.counter] += p - n
    ordered = sorted((-count, name) for name, count in sums.items() if count > 0)
    return [(at, name, -count) for at, (count, name) in enumerate(ordered, start=1)]


def by_sql(site: Site, view: str, region: str = "*", where: str = "") -> list[Place]:
    rows = site.rows(
        f"SELECT rank, counter, toInt64(count), toInt64(error) FROM tally.{view} "
        f"WHERE family = 'tag' AND region = '{region}'{where}"
    )
    assert all(error == 0 for *_, error in rows)
    return [(int(at), counter, count) for at, counter, count, _ in rows]


def places(answer: TopAnswer) -> list[Place]:
    assert all(each.error == 0 for each in answer.top)
    return [(each.rank, each.counter, each.count) for each in answer.top]


@pytest.mark.parametrize("grain", GRAINS)
def test_the_planned_query_ranks_the_newest_window_and_another_view_any(
    rolled: Site, grain: Grain
) -> None:
    grain_s = GRAINS[grain]
    newest_s = max(one.window_s for one in rolled.truth.cells if one.counter.startswith("tag:"))
    newest_s -= newest_s % grain_s
    for region in ("*", "eu"):
        assert by_sql(rolled, f"top_{grain}", region) == truth(
            rolled, newest_s, newest_s + grain_s, region
        )
        since_s = newest_s - grain_s
        where = f" AND window = toDateTime({since_s}, 'UTC')"
        assert by_sql(rolled, f"top_by_window_{grain}", region, where) == truth(
            rolled, since_s, newest_s, region
        )
    windows = rolled.rows(
        f"SELECT DISTINCT toUnixTimestamp(window) FROM tally.top_{grain} WHERE family = 'tag'"
    )
    assert windows == [(newest_s,)]


def test_the_world_is_ranked_from_all_cells_not_from_the_first_of_regions(site: Site) -> None:
    k, cells = 3, []
    for number, region in enumerate(REGIONS):
        cells += [(cell(f"tag:{region}-{at}", 60, region, number % 2), 100, 0) for at in range(k)]
        # Just below the K of its region, in every one of them.
        cells.append((cell("tag:everywhere", 60, region), 99, 0))
    site.flush(cells)
    flushed(site)
    for region in REGIONS:
        local = top(reads_of(site), "tag", Period(), k=k, region=region)
        assert "tag:everywhere" not in [each.counter for each in local.top]
    assert places(top(reads_of(site), "tag", Period(), k=k))[0] == (1, "tag:everywhere", 297)
    assert by_sql(site, "top_1h", where=f" AND rank <= {k}")[0] == (1, "tag:everywhere", 297)


def test_what_spilled_and_what_is_not_above_zero_is_not_ranked(site: Site) -> None:
    site.flush(
        [
            (cell("tag:", 60), 1000, 0),
            (cell(":", 60), 1000, 0),
            (cell("tag:even", 60), 3, 3),
            (cell("tag:debt", 60), 3, 4),
            (cell("tag:b", 60, "eu"), 2, 0),
            (cell("tag:a", 60), 4, 2),
        ]
    )
    # Written again with more in it: the greatest counts, not the sum.
    site.flush([(cell("tag:b", 60, "eu"), 3, 1)])
    flushed(site)
    expected = [(1, "tag:a", 2), (2, "tag:b", 2)]
    answer = top(reads_of(site), "tag", Period())
    assert places(answer) == by_sql(site, "top_1h") == by_sql(site, "top_1d") == expected
    assert answer.document()["capped"] is True
    assert answer.ranking.spilled_to == "tag:"
    none = rank(reads_of(site), "tag:debt", Period())
    assert (none.rank, none.of, none.count, none.below) == (None, 2, -1, None)
    assert none.above is not None
    assert (none.above.rank, none.above.counter) == (2, "tag:b")
    assert none.ranking.remarks == ["it has no rank: its count in that time is -1, not above 0"]


def test_a_minute_ahead_of_the_clock_does_not_hide_the_present_window(site: Site) -> None:
    now_s = int(site.rows("SELECT toUnixTimestamp(now())")[0][0])
    minute_s = now_s - now_s % MINUTE_S
    # In the next day as well, lest midnight comes in between.
    present = [Cell("tag:now", "", at_s, minute_s, 0) for at_s in (minute_s, minute_s + DAY_S)]
    ahead = Cell("tag:ahead", "", minute_s + 4 * DAY_S, minute_s, 0)
    site.flush([*((one, 1, 0) for one in present), (ahead, 9, 0)])
    assert by_sql(site, "top_1d") == [(1, "tag:now", 1)]


def test_an_event_that_came_before_the_day_it_tells_is_in_that_day(site: Site) -> None:
    early = Cell("tag:early", "", seconds(TODAY, 0, 2), seconds(TODAY) - 2 * MINUTE_S, 0)
    site.flush([(early, 4, 0)])
    flushed(site)
    for period in (Period(grain="1d"), Period(last_ms=45_020_000)):
        assert places(top(reads_of(site), "tag", period)) == [(1, "tag:early", 4)]


def test_another_build_and_another_family_are_not_read(site: Site) -> None:
    site.flush([(cell("tag:a", 60), 1, 0), (cell("tags:a", 60), 50, 0), (cell("ta:a", 60), 50, 0)])
    Site(site.client, build=2).flush([(cell("tag:a", 60), 7, 0), (cell("new:b", 0), 7, 0)])
    flushed(site)
    assert places(top(reads_of(site), "tag", Period())) == [(1, "tag:a", 1)]
    assert by_sql(site, "top_1h") == [(1, "tag:a", 1)]
    with pytest.raises(OperatorError, match="family 'new' was ever counted; there are ta, tag, ta"):
        top(reads_of(site), "new", Period())


@pytest.mark.parametrize(
    ("period", "since_s", "until_s"),
    [
        (Period(), NOW_S + 1 - HOUR_S, NOW_S + 999),
        (Period(last_ms=600_000), NOW_S + 1 - 600, NOW_S + 999),
        (Period(last_ms=86_400_000), NOW_S + 1 - DAY_S, NOW_S + 999),
        (Period(grain="1h"), seconds(TODAY, 12), seconds(TODAY, 13)),
        (Period(grain="1d"), seconds(TODAY), seconds(TODAY) + DAY_S),
        (
            Period(grain="1h", at_ms=(NOW_S - 7 * HOUR_S) * 1000),
            seconds(TODAY, 5),
            seconds(TODAY, 6),
        ),
    ],
)
def test_top_and_rank_agree_with_the_truth(
    rolled: Site, period: Period, since_s: int, until_s: int
) -> None:
    reads = reads_of(rolled)
    for region in ("eu", "", "*"):
        expected = truth(rolled, since_s, until_s, region)
        assert expected
        assert places(top(reads, "tag", period, k=100, region=region)) == expected
    assert len(expected) > 3
    assert places(top(reads, "tag", period, k=3)) == expected[:3]
    for at, counter, count in (expected[0], expected[len(expected) // 2], expected[-1]):
        found = rank(reads, counter, period)
        assert (found.rank, found.of, found.count) == (at, len(expected), count)
        neighbours = [
            each and (each.rank, each.counter, each.count) for each in (found.above, found.below)
        ]
        around = [expected[at - 2] if at > 1 else None, *expected[at : at + 1], None]
        assert neighbours == around[:2]


def test_every_counter_has_the_place_it_has_in_the_whole_ranking(rolled: Site) -> None:
    expected = truth(rolled, NOW_S + 1 - HOUR_S, NOW_S + 999)
    assert len({count for _, _, count in expected}) < len(expected), "some are equal"
    found = [rank(reads_of(rolled), counter, Period()) for _, counter, _ in expected]
    assert [(one.rank, one.counter, one.count) for one in found] == expected


def test_old_times_are_exact_or_remarked_on_where_minutes_and_hours_are_gone(site: Site) -> None:
    scatter(site, days=8, count=3000)
    site.roll_up(SHARDS, FAMILIES)
    site.roll_up(SHARDS, FAMILIES)
    assert len(site.partitions_of("cells_1m")) < len(site.partitions_of("cells_1h")) < 9
    reads, exact = reads_of(site), 0
    periods = [Period(last_ms=hours * HOUR_S * 1000) for hours in (30, 75, 190)]
    for days in (1, 4, 6):
        at_ms = seconds(TODAY - timedelta(days), 9, 17) * 1000
        periods += [Period(grain=grain, at_ms=at_ms) for grain in GRAINS]
    for period in periods:
        span = period.span(reads.now_ms(), 0)
        until_s = min(span.until_ms // 1000, NOW_S + 1)
        expected = truth(site, -(-span.since_ms // 1000), until_s)
        answer = top(reads, "tag", period, k=100)
        assert places(answer) == expected or answer.ranking.remarks, period
        exact += bool(expected) and places(answer) == expected and not answer.ranking.remarks
    assert exact >= 6
    gone = top(reads, "tag", Period(grain="1m", at_ms=seconds(TODAY - timedelta(4), 9, 17) * 1000))
    assert gone.top == []
    assert any("minutes of the hour from" in said for said in gone.ranking.remarks)


def test_days_that_a_family_forgot_are_told(site: Site) -> None:
    scatter(site, days=1, count=50)
    old_s = seconds(TODAY - timedelta(days=60), 10)
    site.flush([(Cell("tag:old", "eu", old_s, old_s, 0), 900, 0)])
    families = parse_families('[default]\nretention = { "1m" = "2d", "1h" = "5d", "1d" = "10d" }')
    for _ in range(4):
        site.roll_up(SHARDS, families)
    answer = top(reads_of(site), "tag", Period(last_ms=80 * DAY_S * 1000))
    assert "tag:old" not in [each.counter for each in answer.top]
    [said] = answer.ranking.remarks
    assert said.startswith("days before 2026-02-01T00:05:00Z are gone")
    lately = top(reads_of(site), "tag", Period(last_ms=20 * DAY_S * 1000), k=100)
    assert lately.ranking.remarks == []
    assert places(lately) == truth(site, NOW_S - 20 * DAY_S, NOW_S + 1)


def test_an_unknown_family_is_an_error_and_an_empty_time_a_remark(site: Site) -> None:
    with pytest.raises(OperatorError, match="nothing was, so far"):
        top(reads_of(site), "tag", Period())
    site.flush([(cell("tag:a", 5 * HOUR_S), 3, 0)])
    with pytest.raises(OperatorError, match="family 'tga' was ever counted; there are tag"):
        rank(reads_of(site), "tga:a", Period())
    for wrong in ("tag", "tag:", ":a"):
        with pytest.raises(BadInputError, match="write family:key"):
            rank(reads_of(site), wrong, Period())
    answer = top(reads_of(site), "tag", Period())
    assert (answer.top, answer.ranking.known.complete) == ([], False)
    newest = window_text((NOW_S - 5 * HOUR_S) // 60 * 60_000)
    [said] = answer.ranking.remarks
    assert said.startswith("no counter of tag was above 0 in that time;")
    assert said.endswith(newest)
    [said] = top(reads_of(site), "tag", Period(grain="1h"), region="eu").ranking.remarks
    assert "in region 'eu'" in said
    # The newest hour of the family is not the clock's own.
    assert places(top(reads_of(site), "tag", Period(grain="1h"))) == [(1, "tag:a", 3)]


def test_an_answer_tells_its_time_and_age(rolled: Site) -> None:
    document = top(reads_of(rolled), "tag", Period(grain="1h")).document()
    assert (document["window"], document["until"]) == (
        "2026-03-20T12:00:00Z",
        "2026-03-20T13:00:00Z",
    )
    assert (document["staleness_ms"], document["complete"]) == (1_000, True)
    assert document["as_of"] == "2026-03-20T12:30:20.000Z"
    sliding = top(reads_of(rolled), "tag", Period()).document()
    assert (sliding["window"], sliding["since"], sliding["until"]) == (
        "last 1h",
        "2026-03-20T11:30:21Z",
        None,
    )


@pytest.mark.parametrize("grain", GRAINS)
def test_a_ranking_is_found_by_the_family_in_every_table(site: Site, grain: Grain) -> None:
    others = [
        (cell(f"other{number % 7}:{number}", 60 * (number % 600)), 1, 0) for number in range(9000)
    ]
    site.flush([*others, (cell("tag:a", 60), 1, 0)])
    flushed(site)
    site.roll_up(SHARDS)
    for view in (f"top_{grain}", f"top_by_window_{grain}"):
        query = f"SELECT * FROM tally.{view} WHERE family = 'tag' AND region = '*'"
        plan = "\n".join(line for (line,) in site.rows(f"EXPLAIN indexes = 1 {query}"))
        read = [
            part for part in plan.split("ReadFromMergeTree (tally.")[1:] if part[:6] == "cells_"
        ]
        assert {part.partition(")")[0] for part in read} == {
            f"cells_{finer}" for finer in GRAINS if GRAINS[finer] <= GRAINS[grain]
        }
        for part in read:
            assert "family in ['tag', 'tag']" in part
            granules = re.findall(r"Granules: (\d+)/(\d+)", part.split("Name: families")[1])
            assert granules
            assert all(int(some) <= 2 for some, _ in granules[:1])
