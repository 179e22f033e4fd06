"""Counts of sketched counters from a real ClickHouse, within their bounds of a plain truth."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.reads import frequency_sql, spans
from pipeline.reads import sketched as reading
from pipeline.reads.reads import Reads
from pipeline.rules import FamilyRules
from schemas.families import parse_families
from schemas.rules import Grain
from tests.integration.rollup.site import DAY_S, HOUR_S, Site, seconds
from tests.integration.sketched.site import (
    KEYS,
    NOW_S,
    SHARDS,
    TODAY,
    Increment,
    Sketched,
    apply_rules,
    flushed,
    of_sketch,
    reads_of,
    scattered,
)
from tests.kit.clocks import ManualClock

DOCS = Path(__file__).parents[3] / "docs"
FAMILIES = parse_families('[default]\nretention = { "1m" = "2d", "1h" = "5d" }')
GRAINS: dict[Grain, int] = {"1h": HOUR_S, "1d": DAY_S}
COUNTERS = [f"views:{key}" for key in range(KEYS)]


def ask(
    site: Site,
    counters: list[str],
    span: spans.Span | None = None,
    by: Grain | None = None,
    *,
    region: str | None = None,
    cached: bool = False,
) -> dict[str, reading.Estimated]:
    reads = reads_of(site)
    sure_ms = spans.sure_since(reads.now_ms(), [NOW_S * 1000])
    plan = spans.plan(span, by, sure_ms)
    return reading.estimates(reads, counters, plan, region=region, cached=cached)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("deltas", [(1, 1, 3, 9), (1, 5, -2)])
def test_an_estimate_is_that_of_one_sketch_of_everything_rolled_up_and_dropped_or_not(
    site: Site, deltas: tuple[int, ...]
) -> None:
    sketched = Sketched(site, error=0.05)
    rows = scattered(3, "views", 8, 400, deltas)
    sketched.count("views", rows)
    flushed(site)
    for step in ("minutes", "rolled up", "dropped"):
        late = Increment("views:2", NOW_S - 3 * HOUR_S, late_s=3 * HOUR_S)
        grown = [Increment("views:1", NOW_S, 7), late]
        sketched.count("views", grown)
        rows += grown
        found = ask(site, COUNTERS)
        assert [found[name].total for name in COUNTERS] == of_sketch(rows, 0.05, COUNTERS), step
        for region in ("eu", ""):
            some = [one for one in rows if one.region == region]
            found = ask(site, COUNTERS, region=region)
            assert [found[name].total for name in COUNTERS] == of_sketch(some, 0.05, COUNTERS)
        for by, size_s in GRAINS.items():
            since_s = seconds(TODAY - timedelta(days=4 if by == "1h" else 8))
            found = ask(site, COUNTERS[:5], spans.Span(since_s * 1000), by)
            windows: dict[int, list[Increment]] = {}
            for one in rows:
                if one.at_s >= since_s:
                    start_ms = (one.at_s - one.at_s % size_s) * 1000
                    windows.setdefault(start_ms, []).append(one)
            expected = {at: of_sketch(some, 0.05, COUNTERS[:5]) for at, some in windows.items()}
            for number, name in enumerate(COUNTERS[:5]):
                assert found[name].windows == {at: e[number] for at, e in expected.items()}, step
            everything = of_sketch([one for one in rows if one.at_s >= since_s], 0.05, COUNTERS[:5])
            assert [found[name].total for name in COUNTERS[:5]] == everything
        if step == "minutes":
            assert ask(site, COUNTERS, cached=True) == {}, "nothing is rolled up"
        for _ in range({"minutes": 1, "rolled up": 2, "dropped": 0}[step]):
            site.roll_up(SHARDS, FAMILIES)
    assert len(site.partitions_of("frequency_1m")) < len(site.partitions_of("frequency_1h")) < 9
    site.roll_up(SHARDS, FAMILIES)
    cached = ask(site, COUNTERS, cached=True)
    assert [cached[name].total for name in COUNTERS] == of_sketch(rows, 0.05, COUNTERS)


def test_the_truth_is_never_above_the_bound_and_seldom_below(site: Site) -> None:
    sketched = Sketched(site, error=0.02)
    sketched.count("views", scattered(5, "views", 1, 600))
    flushed(site)
    span = spans.Span(seconds(TODAY) * 1000)
    found = ask(site, COUNTERS, span)
    truths = {name: sketched.truth(name, seconds(TODAY)) for name in COUNTERS}
    assert sum(truths.values()) > 100
    assert all(found[name].total.high >= truth for name, truth in truths.items())
    assert all(found[name].total.value == found[name].total.high for name in COUNTERS)
    assert sum(found[name].total.low > truth for name, truth in truths.items()) <= 1
    absent = ask(site, ["views:absent"], span)["views:absent"].total
    assert absent.low == 0
    assert absent.high < sum(truths.values())


def test_sketches_of_two_widths_are_estimated_each_by_itself(site: Site) -> None:
    parts = [scattered(seed, "views", 0.4, 150) for seed in (6, 7)]
    for rows, error in zip(parts, (0.05, 0.02), strict=True):
        Sketched(site, error=error).count("views", rows)
    flushed(site)
    found = ask(site, COUNTERS)
    both = zip(
        of_sketch(parts[0], 0.05, COUNTERS), of_sketch(parts[1], 0.02, COUNTERS), strict=True
    )
    assert [found[name].total for name in COUNTERS] == [one + other for one, other in both]


def test_families_without_a_rule_share_their_sketches_and_named_ones_do_not(site: Site) -> None:
    shared, own = scattered(8, "views", 0.3, 100), scattered(9, "likes", 0.3, 100)
    Sketched(site, error=0.05).count("", shared + own)
    flushed(site)
    [found] = ask(site, ["views:1"]).values()
    assert found.total == of_sketch(shared + own, 0.05, ["views:1"])[0]
    assert found.families == {""}
    lately = spans.Span((NOW_S - DAY_S) * 1000)
    apply_rules(site, 1, {"likes": FamilyRules()})
    assert ask(site, ["likes:1"], lately) == {}
    assert ask(site, ["views:1"], lately) != {}
    # Named only since a while, it may be in what was shared before, and is in its own now.
    apply_rules(site, 2, {"likes": FamilyRules(), "views": FamilyRules()}, ago_s=600)
    assert ask(site, ["views:1"], lately)["views:1"].families == {""}
    assert ask(site, ["views:1"], spans.Span((NOW_S - 240) * 1000)) == {}
    Sketched(site, error=0.05).count("views", [Increment("views:1", NOW_S - 60, 5)])
    assert ask(site, ["views:1"], lately)["views:1"].families == {"", "views"}


def test_where_all_is_exact_one_small_table_is_looked_at(site: Site) -> None:
    flushed(site)
    asked: list[str] = []

    class Watched(Reads):
        def rows(
            self,
            query: str,
            parameters: Mapping[str, Any] | None = None,
            settings: Mapping[str, Any] | None = None,
        ) -> Sequence[Sequence[Any]]:
            asked.append(query)
            return super().rows(query, parameters, settings)

    plan = spans.plan(None, None, 0)
    reads = Watched(site.client, ManualClock(NOW_S))
    assert reading.estimates(reads, ["likes:a"], plan) == {}
    assert len(asked) == 1
    assert "frequency_widths" in asked[0]


@pytest.mark.parametrize("grain", ["1m", "1h", "1d", "life"])
def test_buckets_are_found_by_the_primary_key(site: Site, grain: str) -> None:
    sketched = Sketched(site, error=0.0005)
    names = [f"views:{number}" for number in range(8_000)]
    sketched.count("views", [Increment(name, NOW_S - HOUR_S) for name in names])
    sketched.count("likes", [Increment(name, NOW_S - HOUR_S) for name in names[:500]])
    flushed(site)
    site.roll_up(SHARDS)
    site.client.command(
        "INSERT INTO tally.frequency_life SELECT build, family, width, bucket, region, "
        "toStartOfMonth(slot_day), replica, shard, p, n FROM tally.frequency_1d"
    )
    piece = (
        spans.LIFE if grain == "life" else spans.Piece(grain, spans.Span((NOW_S - DAY_S) * 1000))  # type: ignore[arg-type]
    )
    [width] = {sketch.width for sketch in sketched.sketches.values()}
    bound = {"family": "views", "width": width, "buckets": [5, width + 9], "open_s": NOW_S}
    query = frequency_sql.sums([piece], cached=False, region=None)
    rows = site.client.query(f"EXPLAIN indexes = 1 {query}", parameters=bound).result_rows
    plan = "\n".join(row[0] for row in rows)
    parts = plan.split("ReadFromMergeTree (tally.frequency_")[1:]
    assert parts
    for part in parts:
        key = part.split("PrimaryKey")[1]
        assert "(family in ['views', 'views'])" in key, part
        assert f"(width in [{width}, {width}])" in key
        assert "bucket in " in key


@pytest.mark.parametrize("rolled", [False, True])
def test_a_sliding_day_is_minutes_at_its_edges_and_whole_hours_between(
    site: Site, rolled: bool
) -> None:
    sketched = Sketched(site, error=0.05)
    rows = [one._replace(late_s=min(one.late_s, 300)) for one in scattered(15, "views", 1.4, 300)]
    sketched.count("views", rows)
    flushed(site)
    if rolled:
        site.roll_up(SHARDS)
        late = Increment("views:2", NOW_S - 5 * HOUR_S, late_s=5 * HOUR_S)
        sketched.count("views", [Increment("views:1", NOW_S, 7), late])
    since_s = NOW_S - 86_000
    minute_s = -(-since_s // 60) * 60  # A minute is in it if it begins in it.
    expected = [one for one in sketched.increments if one.at_s >= minute_s]
    span = spans.Span(since_s * 1000)
    found = ask(site, COUNTERS, span)
    assert [found[name].total for name in COUNTERS] == of_sketch(expected, 0.05, COUNTERS)
    # Up to the middle of an hour, too.
    until_s = NOW_S - 3 * HOUR_S
    minute_s = -(-until_s // 60) * 60
    expected = [one for one in expected if one.at_s < minute_s]
    found = ask(site, COUNTERS, spans.Span(since_s * 1000, until_s * 1000))
    assert [found[name].total for name in COUNTERS] == of_sketch(expected, 0.05, COUNTERS)


def test_plain_sql_as_in_the_docs_finds_the_same(site: Site) -> None:
    rows = scattered(16, "views", 1, 100)
    Sketched(site).count("views", rows)
    page = (DOCS / "sketches" / "sketched-families.md").read_text()
    query = page.partition("    SELECT min(sum)")[2].partition("\n\n")[0]
    assert "'views:home'" in query
    [bounds] = of_sketch(rows, 0.002, ["views:1"])
    found = site.rows("SELECT toInt64(min(sum))" + query.replace("'views:home'", "'views:1'"))
    assert found == [(bounds.value,)]
