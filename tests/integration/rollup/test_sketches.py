"""Sketches rolled up and dropped on a real ClickHouse, bucket by bucket against Python's."""

import random
from datetime import date, timedelta

import pytest

from pipeline.rollup import sketch_sql
from pipeline.rollup import steps as rollup_steps
from schemas.families import parse_families
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, Site, seconds
from tests.integration.sketched.site import Increment, Sketched
from tests.kit.waiting import eventually

DAY = date(2026, 3, 10)
GRAINS = {"1m": MINUTE_S, "1h": HOUR_S, "1d": DAY_S}
FAMILIES = parse_families(
    """
[default]
retention = { "1m" = "2d", "1h" = "10d", "1d" = "forever" }
[families.views]
retention = { "1m" = "2d", "1h" = "10d", "1d" = "15d" }
"""
)
SHARDS = 2


def some_increments(seed: int, family: str, days: int = 2) -> list[Increment]:
    print(f"seed {seed}")
    choose = random.Random(seed)
    return [
        Increment(
            f"{family}:{choose.randrange(40)}",
            seconds(DAY) + choose.randrange(days * DAY_S),
            choose.choice([1, 1, 5, -2]),
            choose.choice(["", "eu"]),
            choose.randrange(SHARDS),
            choose.choice([0, 0, 300, 2 * HOUR_S, 3 * DAY_S]),
        )
        for _ in range(60)
    ]


def found(site: Site, grain: str) -> dict[tuple[str, int, int, int], tuple[int, int]]:
    window = "0" if grain == "life" else "toUnixTimestamp(window)"
    rows = site.rows(
        f"SELECT toString(family), width, bucket, {window} AS at, toInt64(sum(p)), toInt64(sum(n)) "
        f"FROM tally.merged_frequency_{grain} GROUP BY ALL"
    )
    return {(family, width, bucket, at): (p, n) for family, width, bucket, at, p, n in rows}


def rolled(site: Site, grain: str) -> dict[tuple[str, int, int, int], tuple[int, int]]:
    """What is in the table itself, whatever finer ones hold."""
    rows = site.rows(
        "SELECT toString(family), width, bucket, toUnixTimestamp(window) AS at, toInt64(sum(p)), "
        f"toInt64(sum(n)) FROM tally.frequency_{grain} FINAL GROUP BY ALL"
    )
    return {(family, width, bucket, at): (p, n) for family, width, bucket, at, p, n in rows}


def roll_up(site: Site, day: date) -> rollup_steps.Rolled:
    site.flush_positions(dict.fromkeys(range(SHARDS), seconds(day)))
    return site.roll_up(SHARDS, FAMILIES)


@pytest.mark.timeout(300)
def test_sketches_are_exact_by_the_bucket_before_and_after_each_step(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup_steps, "BATCH_CELLS", 5_000)
    sketched = Sketched(site)
    sketched.count("views", some_increments(1, "views"))
    sketched.count("", some_increments(2, "other"))
    for _ in range(2):  # A pass may be repeated.
        for grain, size_s in GRAINS.items():
            assert found(site, grain) == sketched.buckets(size_s), grain
        assert found(site, "life") == sketched.buckets(0)
        roll_up(site, DAY + timedelta(days=6))
    assert rolled(site, "1h") == sketched.buckets(HOUR_S)
    assert rolled(site, "1d") == sketched.buckets(DAY_S)

    # Minutes and hours go together with the cells of their day, which only the spill has.
    for later in (20, 21):
        roll_up(site, DAY + timedelta(days=later))
    for table in ("frequency_1m", "heavy_1m", "cells_1m", "frequency_1h", "heavy_1h", "cells_1h"):
        assert site.partitions_of(table) == set(), table
    assert found(site, "1d") == sketched.buckets(DAY_S)

    # A family that forgets days keeps its total; the group of families without a name keeps days.
    for later in (60, 61):
        roll_up(site, DAY + timedelta(days=later))
    days = " UNION ALL ".join(
        f"SELECT 1 FROM tally.{table} WHERE family = 'views'"
        for table in ("frequency_1d", "heavy_1d", "cells_1d")
    )
    eventually(lambda: site.rows(days) == [], "days that a family forgets go from all tables")
    kept = {key: value for key, value in sketched.buckets(DAY_S).items() if key[0] == ""}
    assert found(site, "1d") == kept
    assert found(site, "life") == sketched.buckets(0)
    assert site.totals() == site.truth.totals()


def test_an_open_sketch_is_rolled_up_again_and_others_are_left_alone(site: Site) -> None:
    sketched = Sketched(site)
    early, late = seconds(DAY, 5, 1), seconds(DAY, 9, 1)
    sketched.count("views", [Increment("views:a", early), Increment("views:b", late, 3)])
    site.flush_positions({0: late + 1})
    first = site.roll_up(1)
    sketched.count("views", [Increment("views:c", late, 2), Increment("views:c", late, 7, "eu")])
    second = site.roll_up(1)
    assert 0 < second.open_cells < first.open_cells + 30
    assert rolled(site, "1h") == sketched.buckets(HOUR_S)
    assert rolled(site, "1d") == sketched.buckets(DAY_S)
    written = site.rows(
        "SELECT toHour(window), count() FROM tally.frequency_1h WHERE region = '' GROUP BY 1"
    )
    assert dict(written)[5] == 6, "the hour without an open slot was written once"


def test_names_are_rolled_up_with_what_is_known_of_all_shards(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketched, at_s = Sketched(site), seconds(DAY, 5)
    rows = [
        Increment(f"views:{name}", at_s + minute * MINUTE_S, name + 1, shard=name % 2)
        for name in range(30)
        for minute in (0, 61)
    ]
    sketched.count("views", rows)
    site.flush_positions({0: seconds(DAY, 9), 1: seconds(DAY, 9)})
    for _ in range(2):
        site.roll_up(2)

    def weights(grain: str, hour: int) -> dict[str, int]:
        return dict(
            site.rows(
                f"SELECT counter, toInt64(weight) FROM tally.heavy_{grain} FINAL "
                f"WHERE family = 'views' AND region = '*' AND toHour(window) = {hour}"
            )
        )

    assert weights("1h", 5) == weights("1h", 6) == {f"views:{name}": name + 1 for name in range(30)}
    assert weights("1d", 0) == {f"views:{name}": 2 * (name + 1) for name in range(30)}
    limited = sketch_sql.ROLL["heavy"]["1h"].replace(
        f"LIMIT {sketch_sql.HEAVY_NAMES_MAX} BY", "LIMIT 3 BY"
    )
    monkeypatch.setitem(sketch_sql.ROLL["heavy"], "1h", limited)
    sketched.count("views", [Increment(f"views:{n}", at_s + 4 * HOUR_S, n + 1) for n in range(30)])
    site.roll_up(2)
    assert weights("1h", 9) == {"views:29": 30, "views:28": 29, "views:27": 28}
