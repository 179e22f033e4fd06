"""What may go, and when."""

from datetime import date

from pipeline.rollup.retention import (
    KEPT_MIN_MS,
    Days,
    Delete,
    Drop,
    FamilySet,
    Fold,
    end_ms,
    folds,
    month_end_ms,
    newly_final,
    removals,
)
from schemas.families import Families, parse_families

DAY = date(2026, 3, 10)
MARCH = date(2026, 3, 1)
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000
MIXED = parse_families(
    """
[default]
retention = { "1m" = "7d", "1h" = "30d", "1d" = "forever" }
[families.short]
retention = { "1m" = "2d" }
[families.long]
retention = { "1m" = "9d", "1h" = "forever" }
[families.brief]
retention = { "1d" = "10d" }
"""
)


def days(*grains: str, confirmed_ms: int = 0, life_ms: int | None = None) -> Days:
    """One day (or month) of each of these grains, in 500 rows, final since `confirmed_ms`."""
    final = {("1d", DAY): confirmed_ms}
    if life_ms is not None:
        final["life", MARCH] = life_ms
    return Days(
        now_ms=NOW_MS,
        present={
            "1m": {DAY: 500} if "1m" in grains else {},
            "1h": {DAY: 500} if "1h" in grains else {},
            "1d": {MARCH: 500} if "1d" in grains else {},
        },
        final=final,  # type: ignore[arg-type]  # a dict's key is not narrowed to its literals
    )


def test_days_and_months_end_when_the_next_begins() -> None:
    assert end_ms(DAY) == 1_773_187_200_000
    assert month_end_ms(MARCH) == end_ms(date(2026, 3, 31))
    assert month_end_ms(date(2028, 2, 1)) == end_ms(date(2028, 2, 29))
    assert month_end_ms(date(2026, 12, 1)) == end_ms(date(2026, 12, 31))


def test_a_day_is_final_when_the_least_log_time_has_left_it() -> None:
    fresh = Days(NOW_MS, {"1m": {DAY: 1}, "1h": {}, "1d": {}})
    assert newly_final(fresh, end_ms(DAY) - 1) == []
    assert newly_final(fresh, end_ms(DAY)) == [DAY]
    assert newly_final(days("1m"), end_ms(DAY)) == []


def test_a_partition_is_dropped_when_the_longest_retention_is_over() -> None:
    past_ms = end_ms(DAY) + 9 * DAY_MS
    assert list(removals(days("1m"), past_ms, MIXED, 0)) == [Drop("1m", DAY)]
    assert list(removals(days("1m"), past_ms - 1, MIXED, 0)) == [
        Delete("1m", DAY, FamilySet(("long",), all_but=True))
    ]


def test_rows_of_families_that_keep_less_are_deleted_once() -> None:
    past_ms = end_ms(DAY) + 2 * DAY_MS
    [deletion] = removals(days("1m"), past_ms, MIXED, 0)
    assert deletion == Delete("1m", DAY, FamilySet(("short",)))
    done = Days(
        NOW_MS,
        {"1m": {DAY: 1}, "1h": {}, "1d": {}},
        {("1d", DAY): 0},
        frozenset({("1m", DAY, FamilySet(("short",)).text())}),
    )
    assert list(removals(done, past_ms, MIXED, 0)) == []


def test_what_one_family_keeps_for_ever_is_never_dropped() -> None:
    far_ms = end_ms(DAY) + 10_000 * DAY_MS
    assert list(removals(days("1h"), far_ms, MIXED, 0)) == [
        Delete("1h", DAY, FamilySet(("long",), all_but=True))
    ]


def test_nothing_goes_that_is_not_known_to_be_final() -> None:
    unknown = Days(NOW_MS, {"1m": {DAY: 1}, "1h": {DAY: 1}, "1d": {MARCH: 1}})
    assert list(removals(unknown, end_ms(DAY) + 10_000 * DAY_MS, MIXED, 0)) == []


def test_nothing_goes_before_the_longest_query_since_the_rollup_is_over() -> None:
    past_ms = end_ms(DAY) + 9 * DAY_MS
    young = days("1m", confirmed_ms=NOW_MS - HOUR_MS + 1)
    assert list(removals(young, past_ms, MIXED, HOUR_MS)) == []
    assert list(removals(days("1m", confirmed_ms=NOW_MS - HOUR_MS), past_ms, MIXED, HOUR_MS)) == [
        Drop("1m", DAY)
    ]


def test_minutes_of_a_sliding_day_outlive_a_retention_of_seconds() -> None:
    families = parse_families('[default]\nretention = { "1m" = "1s" }')
    assert list(removals(days("1m"), end_ms(DAY) + KEPT_MIN_MS - 1, families, 0)) == []
    assert list(removals(days("1m"), end_ms(DAY) + KEPT_MIN_MS, families, 0)) == [Drop("1m", DAY)]


def test_days_go_only_after_lifetime_totals_hold_their_month() -> None:
    past_ms = month_end_ms(MARCH) + 10 * DAY_MS
    assert list(removals(days("1d"), past_ms, MIXED, 0)) == []
    assert list(folds(days("1d"), past_ms - 1, MIXED, 1000)) == []
    assert list(folds(days("1d"), past_ms, MIXED, 1000)) == [[Fold(MARCH, 0, 1)]]
    assert list(folds(days("1d"), past_ms, MIXED, 200)) == [[Fold(MARCH, i, 3) for i in range(3)]]
    held = days("1d", life_ms=0)
    assert list(folds(held, past_ms, MIXED, 1000)) == []
    assert list(removals(held, past_ms, MIXED, 0)) == [Delete("1d", MARCH, FamilySet(("brief",)))]


def test_with_the_defaults_days_are_kept_and_nothing_is_added_up() -> None:
    far_ms = month_end_ms(MARCH) + 10_000 * DAY_MS
    assert list(folds(days("1d"), far_ms, Families(), 1000)) == []
    assert list(removals(days("1d", life_ms=0), far_ms, Families(), 0)) == []
