"""Hours and days against the ledger of a day."""

import pytest

from pipeline.cells import CELL_MAX
from pipeline.ledger import Entry
from pipeline.reconcile.compared import CellSums, Difference, Flushed, Owner, SlotOf
from pipeline.reconcile.grains import (
    DaySums,
    GrainSums,
    day_ledgers,
    grain_differences,
    is_settled,
    strangers,
)

DAY, MINUTE = 86_400_000, 60_000
MAIN, AGAIN = Owner("main", 3), Owner("main~1", 3)
ENTRIES = [Entry(p=15, n=4, duplicates=2), Entry(p=5, n=1)]
SUMS = DaySums(20, 5, 2)


def told(merged: DaySums | None, rolled: DaySums | None = None) -> list[str]:
    """Differences of a day; it is rolled up for good if that is said."""
    sums = GrainSums(
        "1h",
        {MAIN: merged} if merged else {},
        {MAIN: rolled} if rolled else {},
        frozenset({MAIN} if rolled else ()),
    )
    found = grain_differences(DAY, sums, {MAIN: ENTRIES})
    return [f"{one.what} {one.ledger} {one.clickhouse}" for one in found]


@pytest.mark.parametrize(
    ("merged", "rolled", "what"),
    [
        (SUMS, None, []),
        (SUMS, SUMS, []),
        (DaySums(200, 5, 2), None, ["p 20 200"]),
        (DaySums(20, 6, 3), SUMS, ["n 5 6", "duplicates 2 3"]),
        (DaySums(19, 5, 2), None, ["p 20 19"]),
        (None, None, ["p 20 0", "n 5 0", "duplicates 2 0"]),
        (SUMS, DaySums(20, 4, 1), ["n rolled up 5 4", "duplicates rolled up 2 1"]),
    ],
)
def test_every_number_that_differs_is_told(
    merged: DaySums | None, rolled: DaySums | None, what: list[str]
) -> None:
    assert told(merged, rolled) == what


def test_what_is_rolled_up_may_be_behind_until_it_is_for_good() -> None:
    sums = GrainSums("1d", {MAIN: SUMS}, {MAIN: DaySums(1, 0, 0)}, frozenset())
    assert list(grain_differences(DAY, sums, {MAIN: ENTRIES})) == []


def test_more_than_entries_can_hold_is_no_difference_but_less_is() -> None:
    full = [Entry(p=CELL_MAX), Entry(p=7)]
    for more, differ in ((0, 0), (10, 0), (-1, 1)):
        sums = GrainSums("1d", {MAIN: DaySums(CELL_MAX + 7 + more, 0, 0)}, {}, frozenset())
        assert len(list(grain_differences(DAY, sums, {MAIN: full}))) == differ


def test_who_counted_nothing_in_a_day_may_have_no_sums_of_it() -> None:
    sums = GrainSums("1d", {MAIN: SUMS, AGAIN: DaySums(1, 0, 0)}, {}, frozenset())
    found = grain_differences(DAY, sums, {MAIN: ENTRIES, AGAIN: []})
    assert list(found) == [Difference(3, DAY, "p", ledger=0, clickhouse=1, grain="1d")]


def test_only_days_of_which_every_minute_agrees_are_summed() -> None:
    first, second = SlotOf("main", 3, DAY), SlotOf("main", 3, DAY + MINUTE)
    other = SlotOf("main", 4, DAY)
    flushed = dict.fromkeys((MAIN, AGAIN, other.owner), Flushed(9, 3 * DAY))
    entries = {first: ENTRIES[0], second: ENTRIES[1], other: ENTRIES[1]}
    again = first._replace(replica="main~1")
    both = [first, second, other]
    found = day_ledgers(flushed, entries, {}, agreeing=both)
    assert found == {MAIN: ENTRIES, AGAIN: [], other.owner: [ENTRIES[1]]}
    # A slot that differs, or of which nothing can be said: be it one with an entry or with cells.
    assert day_ledgers(flushed, entries, {}, agreeing=[first, other]).keys() == {AGAIN, other.owner}
    cells = {again: CellSums(1, 0, 0, 5)}
    assert day_ledgers(flushed, entries, cells, agreeing=both).keys() == {MAIN, other.owner}


@pytest.mark.parametrize(
    ("rolled", "settled"),
    [
        ({MAIN: SUMS}, True),
        ({}, False),
        ({MAIN: DaySums(20, 5, 3)}, False),
        ({MAIN: DaySums(20, 4, 2)}, False),
        ({MAIN: SUMS, AGAIN: DaySums(1, 0, 0)}, False),
        ({MAIN: SUMS, Owner("main", 99): SUMS}, False),
    ],
)
def test_a_day_is_settled_when_just_what_was_counted_is_rolled_up(
    rolled: dict[Owner, DaySums], settled: bool
) -> None:
    flushed = dict.fromkeys((MAIN, AGAIN), Flushed(9, 3 * DAY))
    assert is_settled(rolled, {MAIN: ENTRIES, AGAIN: []}, flushed) == settled


def test_sums_that_nobody_counted_are_told_once() -> None:
    strange, seen = Owner("main", 99), Owner("x", 3)
    sums = GrainSums("1h", {MAIN: SUMS, strange: DaySums(5, 0, 0), seen: SUMS}, {}, frozenset())
    [found] = strangers(DAY, sums, {MAIN: Flushed(9, 3 * DAY)}, {SlotOf("x", 3, DAY): ()})
    assert (found.shard, found.ledger, found.clickhouse, found.grain) == (99, 0, 5, "1h")
    assert "which nobody counted" in found.what


def test_a_text_names_the_grain_and_the_day() -> None:
    one = Difference(3, 20_000 * DAY, "p", ledger=2, clickhouse=20, grain="1d")
    assert one.text() == "shard 3, day 2024-10-04, 1d p: ledger 2, ClickHouse 20"
