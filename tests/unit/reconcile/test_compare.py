"""ClickHouse against the ledger, and the ledger against the log's offsets."""

from collections.abc import Mapping

import pytest

from pipeline.cells import CELL_MAX
from pipeline.ledger import Entry
from pipeline.reconcile.compare import chain, compared_slots, slot_differences, unowned
from pipeline.reconcile.compared import (
    CellSums,
    Difference,
    Flushed,
    Owner,
    Reconciled,
    SlotOf,
)

MINUTE = 60_000
KEY = SlotOf("main", 3, 10 * MINUTE)
ENTRY = Entry(5, 9, 20, 4, 6, 15, 4, 2, 1, 0, 100, 104)
SUMS = CellSums(15, 4, 2, 104)


def test_what_agrees_has_no_differences() -> None:
    assert list(slot_differences(KEY, ENTRY, SUMS)) == []
    quiet = Entry(records=2, unreadable=1, first=5, through=6)
    assert list(slot_differences(KEY, quiet, None)) == []


@pytest.mark.parametrize(
    ("sums", "what"),
    [
        (None, ["p 15 0", "n 4 0", "duplicates 2 0"]),
        (CellSums(30, 4, 2, 104), ["p 15 30"]),
        (CellSums(15, 3, 2, 104), ["n 4 3"]),
        (CellSums(15, 4, 0, 104), ["duplicates 2 0"]),
        (CellSums(15, 4, 2, 105), ["last offset 104 105"]),
    ],
)
def test_every_number_that_differs_is_told(sums: CellSums | None, what: list[str]) -> None:
    found = slot_differences(KEY, ENTRY, sums)
    assert [f"{one.what} {one.ledger} {one.clickhouse}" for one in found] == what


def test_cells_without_an_entry_and_an_entry_that_does_not_add_up_are_told() -> None:
    [missing] = slot_differences(KEY, None, SUMS)
    assert missing == Difference(3, 10 * MINUTE, "no entry in the ledger", clickhouse=15)
    lost = Entry(5, 10, 20, 4, 6, 15, 4, 2, 1, 0, 100, 104)
    [difference] = slot_differences(KEY, lost, SUMS)
    assert (difference.what, difference.ledger, difference.log) == ("rows", 9, 10)


def test_sums_beyond_what_a_column_holds_agree_when_the_column_is_full() -> None:
    full = Entry(1, 1, CELL_MAX, 0, 1, CELL_MAX, 0, 0, 0, 0, 0, 0)
    assert list(slot_differences(KEY, full, CellSums(CELL_MAX + 5, 0, 0, 0))) == []


def compared(
    log_ms: int, entries: Mapping[SlotOf, Entry], cells: Mapping[SlotOf, CellSums]
) -> list[SlotOf]:
    flushed = {
        Owner("main", 3): Flushed(104, log_ms),
        Owner("main~1", 3): Flushed(104, log_ms),
    }
    return compared_slots(flushed, entries, cells)


def test_a_slot_that_is_over_is_compared_whatever_is_there() -> None:
    assert compared(11 * MINUTE, {KEY: ENTRY}, {}) == [KEY]
    assert compared(11 * MINUTE, {}, {KEY: SUMS}) == [KEY]


def test_an_open_slot_is_compared_unless_cells_are_ahead_of_the_entry() -> None:
    now = 11 * MINUTE - 1
    assert compared(now, {KEY: ENTRY}, {KEY: SUMS}) == [KEY]
    assert compared(now, {KEY: ENTRY}, {KEY: CellSums(16, 4, 2, 105)}) == []
    assert compared(now, {}, {KEY: SUMS}) == []


def test_what_a_new_incarnation_reads_again_is_compared_as_the_first_counted_it() -> None:
    again, later = KEY._replace(replica="main~1"), SlotOf("main~1", 3, 11 * MINUTE)
    entries = {KEY: ENTRY, again: ENTRY, later: ENTRY}
    assert compared(20 * MINUTE, entries, {KEY: SUMS}) == [KEY, later]


def test_old_cells_that_nobody_counted_are_told_and_those_of_a_first_flush_are_not() -> None:
    flushed = {Owner("main", 0): Flushed(9, 30 * MINUTE)}
    strange = {SlotOf("main", 99, 10 * MINUTE): SUMS, SlotOf("other~x", 0, 10 * MINUTE): SUMS}
    new = {SlotOf("main", 1, 29 * MINUTE): SUMS}
    found = list(unowned(flushed, {**strange, **new}))
    assert [(one.shard, one.clickhouse) for one in found] == [(99, 15), (0, 15)]


def entries(*spans: tuple[int, int]) -> list[tuple[SlotOf, Entry]]:
    return [
        (SlotOf("main", 3, number * MINUTE), Entry(first=first, through=last))
        for number, (first, last) in enumerate(spans)
    ]


@pytest.mark.parametrize(
    ("spans", "before", "begins", "broken"),
    [
        ([(0, 4), (5, 9)], None, 0, []),
        ([(0, 4), (5, 9)], None, 3, []),
        ([(5, 9), (10, 12)], 4, None, []),
        ([(5, 9)], None, None, []),
        ([(5, 9)], None, 4, [(5, 4)]),
        ([(6, 9)], 4, None, [(6, 5)]),
        ([(4, 9)], 4, None, [(4, 5)]),
        ([(0, 4), (7, 9), (10, 11)], None, 0, [(7, 5)]),
    ],
)
def test_entries_have_to_follow_on_each_other(
    spans: list[tuple[int, int]],
    before: int | None,
    begins: int | None,
    broken: list[tuple[int, int]],
) -> None:
    found = chain(entries(*spans), before, begins)
    assert [(one.ledger, one.log) for one in found.differences] == broken
    assert found.reached == spans[-1][1]


def test_without_entries_what_was_before_is_as_far_as_it_goes() -> None:
    assert chain([], 7, 0).reached == 7
    assert chain([], None, 0).reached is None


def test_the_line_names_a_few_shards_and_counts_the_others() -> None:
    few = Reconciled(1, {1: 7, 0: 123})
    assert few.line() == "log and ClickHouse agree through offset 123 (shard 0), 7 (shard 1)"
    many = Reconciled(1, {shard: shard * 10 for shard in range(8)})
    assert many.line() == (
        "log and ClickHouse agree through offset 0 (shard 0), 10 (shard 1), 20 (shard 2), "
        "30 (shard 3) and as far in 4 more shards"
    )
    assert "nothing" in Reconciled(1).line()
