"""Rankings of sketched and flooded families from a real ClickHouse, against plain dicts."""

from collections import Counter

import pytest

from pipeline.errors import OperatorError
from pipeline.reads.family_windows import Period
from pipeline.reads.ranking import RankedCounter
from pipeline.reads.top import rank, top
from pipeline.rules import FamilyRules
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, Cell, Site
from tests.integration.sketched.site import (
    NOW_S,
    SHARDS,
    Increment,
    Sketched,
    apply_rules,
    flushed,
    reads_of,
    scattered,
)

ERROR = 0.0005
"""So small that the few counters of these tests have no bucket in common in all rows."""
HOUR = Period()
DAY = Period(last_ms=DAY_S * 1000)


def truth(sketched: Sketched, since_s: int, region: str | None = None) -> list[tuple[int, str]]:
    counts: Counter[str] = Counter()
    for one in sketched.increments:
        if one.at_s - one.at_s % MINUTE_S >= since_s and region in {None, one.region}:
            counts[one.counter] += one.delta
    ordered = sorted((-count, name) for name, count in counts.items() if count > 0)
    return [(-count, name) for count, name in ordered]


def shown(rows: list[RankedCounter]) -> list[tuple[int, str]]:
    assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
    return [(row.count, row.counter) for row in rows]


@pytest.mark.parametrize("rolled", [False, True])
def test_a_sketched_family_is_ranked_by_its_estimates(site: Site, rolled: bool) -> None:
    sketched = Sketched(site, error=ERROR)
    sketched.count("views", scattered(21, "views", 1.5, 500))
    flushed(site)
    if rolled:
        site.roll_up(SHARDS)
    for region in (None, "eu"):
        expected = truth(sketched, NOW_S + 1 - DAY_S, region)
        found = top(reads_of(site), "views", DAY, k=8, region=region or "*")
        assert shown(found.top) == expected[:8]
        slack = int(ERROR * sum(count for count, _ in expected))
        assert all(row.error <= slack + 1 for row in found.top)
        assert found.ranking.spilled_to is None
    count, name = truth(sketched, NOW_S + 1 - DAY_S)[2]
    place = rank(reads_of(site), name, DAY)
    assert (place.rank, place.count) == (3, count)
    assert place.above is not None
    assert place.below is not None
    assert (place.above.rank, place.below.rank) == (2, 4)
    assert rank(reads_of(site), "views:absent", DAY).rank is None


def test_a_counter_that_leads_in_no_region_leads_where_all_are_together(site: Site) -> None:
    sketched = Sketched(site, error=ERROR, keys=3)
    regions = ["a", "b", "c", "d"]
    rows = []
    for region in regions:
        names = [*(f"views:{region}{number}" for number in range(4)), "views:everywhere"]
        for name, delta in zip(names, (40, 39, 38, 37, 30), strict=True):
            rows.append(Increment(name, NOW_S - 60, delta, region))
    sketched.count("views", rows)
    flushed(site)
    assert "views:everywhere" not in str(
        site.rows("SELECT counters FROM tally.heavy_1m WHERE region != '*'")
    )
    [first, *_] = top(reads_of(site), "views", HOUR).top
    assert (first.counter, first.count) == ("views:everywhere", 120)
    in_region = top(reads_of(site), "views", HOUR, region="a", k=3).top
    assert shown(in_region) == [(40, "views:a0"), (39, "views:a1"), (38, "views:a2")]


def test_cells_and_what_spilled_are_ranked_together(site: Site) -> None:
    sketched = Sketched(site, error=ERROR)
    at_s = NOW_S - 120
    minute_s = at_s - at_s % MINUTE_S
    spilled = {"views:both": 50, "views:spilled": 70, "views:small": 2}
    sketched.count("views", [Increment(name, at_s, delta) for name, delta in spilled.items()])
    cells = {"views:both": 45, "views:exact": 80, "views:down": -5}
    site.flush(
        [
            (Cell(name, "", minute_s, minute_s, 0), max(count, 0), max(-count, 0))
            for name, count in cells.items()
        ]
    )
    flushed(site)
    expected = [(95, "views:both"), (80, "views:exact"), (70, "views:spilled"), (2, "views:small")]
    assert shown(top(reads_of(site), "views", HOUR).top) == expected
    assert shown(top(reads_of(site), "views", HOUR, k=2).top) == expected[:2]
    for at, (count, name) in enumerate(expected, start=1):
        place = rank(reads_of(site), name, HOUR)
        assert (place.rank, place.of, place.count) == (at, 4, count)
        assert (place.above.counter if place.above else "") == ("", *(n for _, n in expected))[
            at - 1
        ]
        assert (place.below.counter if place.below else "") == (
            *(n for _, n in expected[1:]),
            "",
        )[at - 1]


def test_a_family_that_no_rule_names_is_ranked_from_what_they_share(site: Site) -> None:
    sketched = Sketched(site, error=ERROR)
    rows = [Increment(f"views:{key}", NOW_S - 60, key + 1) for key in range(5)]
    rows += [Increment(f"likes:{key}", NOW_S - 60, 100 + key) for key in range(5)]
    sketched.count("", rows)
    flushed(site)
    assert [row.counter for row in top(reads_of(site), "views", HOUR, k=2).top] == [
        "views:4",
        "views:3",
    ]
    with pytest.raises(OperatorError, match="nothing of a family 'view'"):
        top(reads_of(site), "view", HOUR)


def test_what_came_late_leads_in_its_own_hour(site: Site) -> None:
    sketched = Sketched(site, error=ERROR, keys=2)
    apply_rules(site, 1, {"views": FamilyRules(lateness_ms=DAY_S * 1000)})
    then_s = NOW_S - 9 * HOUR_S
    sketched.count(
        "views",
        [
            Increment("views:late", then_s, 50, late_s=6 * HOUR_S),
            Increment("views:then", then_s, 20),
            Increment("views:after", then_s + 6 * HOUR_S, 500),
        ],
    )
    flushed(site)
    for _ in range(2):
        period = Period(grain="1h", at_ms=then_s * 1000)
        found = top(reads_of(site), "views", period).top
        assert shown(found) == [(50, "views:late"), (20, "views:then")]
        site.roll_up(SHARDS)


def test_a_counter_of_an_old_day_is_found_when_only_days_are_left(site: Site) -> None:
    sketched = Sketched(site, error=ERROR)
    old_s = NOW_S - 200 * DAY_S
    sketched.count("views", [Increment("views:old", old_s, 9), Increment("views:new", NOW_S, 8)])
    flushed(site)
    for _ in range(2):
        site.roll_up(SHARDS)
    assert site.rows("SELECT count() FROM tally.heavy_1h WHERE counter = 'views:old'") == [(0,)]
    found = top(reads_of(site), "views", Period(grain="1d", at_ms=old_s * 1000)).top
    assert shown(found) == [(9, "views:old")]


def test_the_heaviest_are_ranked_by_what_they_have_for_certain(site: Site) -> None:
    """With so coarse a Count-Min, estimates alone would rank by who shares buckets with whom."""
    sketched = Sketched(site, error=0.05)
    names = [f"views:{number:03}" for number in range(300)]
    rows = [
        Increment(name, NOW_S - 60 - number % 40 * MINUTE_S, 600 - number, "eu")
        for number, name in enumerate(names)
    ]
    sketched.count("views", rows)
    flushed(site)
    found = top(reads_of(site), "views", HOUR, k=100).top
    assert shown(found) == truth(sketched, NOW_S + 1 - HOUR_S)[:100]
    assert all(row.error > 0 for row in found)  # What is promised of them stays honest.
