"""The ledger: what the log has in each slot, and what became of it."""

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from pipeline.cells import CELL_MAX
from pipeline.ledger import Entry, Ledger, slot_runs
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import Fetched, Row, Shard
from pipeline.slots import SLOT_MS
from pipeline.writes.ledger_rows import ledger_rows
from tests.kit.cells import cell_values
from tests.simulation.worker import columns_of

T0 = 1_760_000_040_000
NEXT = T0 + SLOT_MS
assert T0 % SLOT_MS == 0

RULES = CountingRules(1, FamilyRules(lateness_ms=SLOT_MS))

Absorb = Callable[[Shard, list[Row], Fetched], Any]


@pytest.fixture(params=["rows", "columns"])
def absorb(request: pytest.FixtureRequest) -> Absorb:
    if request.param == "rows":
        return Shard.absorb_rows
    return lambda shard, rows, fetched: shard.absorb_columns(columns_of(rows), fetched)


def fetch(first: int, *times_ms: int, refused: tuple[tuple[int, int], ...] = ()) -> Fetched:
    offsets = np.arange(first, first + len(times_ms))
    return Fetched(offsets, np.array(times_ms), first + len(times_ms), refused=refused)


def row(offset: int, delta: int, at_ms: int = T0, id_: str | None = None, number: int = 0) -> Row:
    return Row(offset, number, "a:x", "", at_ms, delta, id_)


def test_every_row_is_in_the_ledger_once_by_what_became_of_it(absorb: Absorb) -> None:
    shard = Shard(0, 10, rules=RULES)
    rows = [
        row(10, 5),
        row(11, -3, id_="i"),
        row(11, 7, id_="i", number=1),
        row(13, 2, at_ms=T0 - 2 * SLOT_MS),
        row(14, 4, at_ms=NEXT),
    ]
    absorb(shard, rows, fetch(10, T0, T0, T0 + 1, T0 + 2, NEXT + 5, refused=((12, 0),)))
    told = {slot: Entry(*numbers) for slot, *numbers in shard.ledger.unconfirmed(0)}
    assert told == {
        T0: Entry(
            records=4,
            rows=4,
            added=14,
            taken=3,
            counted=2,
            p=5,
            n=3,
            duplicates=1,
            refused=1,
            unreadable=1,
            first=10,
            through=13,
        ),
        NEXT: Entry(records=1, rows=1, added=4, counted=1, p=4, first=14, through=14),
    }
    assert shard.ledger.latest() == (NEXT, *astuple(told[NEXT]))


def test_a_row_that_is_too_much_for_its_cell_is_refused_in_the_ledger_too(absorb: Absorb) -> None:
    shard = Shard(0, 10, rules=RULES)
    key = f"a:x\0\0{T0}"
    [cells] = [shard.slot(T0)]
    absorb(shard, [row(10, 1)], fetch(10, T0))
    [key] = cells.values().keys
    shard.restore(T0, cell_values(key, CELL_MAX, 0, 10))
    absorb(shard, [row(11, 2), row(11, -1, number=1)], fetch(11, T0))
    entry = shard.ledger.at(T0)
    assert (entry.rows, entry.counted, entry.refused) == (3, 2, 1)
    assert (entry.added, entry.p, entry.taken, entry.n) == (3, 1, 1, 1)


def test_rows_that_cells_have_already_are_in_the_ledger_as_counted(absorb: Absorb) -> None:
    ahead = Shard(0, rules=RULES)
    absorb(ahead, [row(0, 1), row(1, 2)], fetch(0, T0, T0))
    behind = Shard(0, rules=RULES)
    behind.restore(T0, ahead.slot(T0).values())
    absorb(behind, [row(0, 1), row(1, 2)], fetch(0, T0, T0))
    assert behind.ledger.latest() == ahead.ledger.latest()


def test_offsets_without_a_record_belong_to_the_slot_after_them() -> None:
    ledger = Ledger()
    ledger.tell(5, np.array([7, 8]), np.array([T0, T0]))
    ledger.tell(11, np.array([14]), np.array([NEXT]))
    assert [(one[0], *one[-2:]) for one in ledger.unconfirmed(0)] == [(T0, 5, 8), (NEXT, 9, 14)]


def test_what_is_confirmed_and_over_is_forgotten_and_what_grew_since_is_not() -> None:
    ledger = Ledger()
    ledger.tell(0, np.array([0]), np.array([T0]))
    written = ledger.unconfirmed(0)
    ledger.tell(1, np.array([1, 2]), np.array([T0, NEXT]))
    ledger.confirm(written)
    assert [one[:2] for one in ledger.unconfirmed(0)] == [(T0, 2), (NEXT, 1)]
    ledger.confirm(ledger.unconfirmed(0))
    assert ledger.unconfirmed(0) == []
    assert ledger.latest() == (NEXT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2)
    with pytest.raises(KeyError):
        ledger.at(T0)


def test_slots_that_only_warm_up_are_not_written_but_go_on_in_the_chain() -> None:
    ledger = Ledger()
    ledger.tell(0, np.array([0, 1, 2]), np.array([T0, T0 + 1, NEXT]))
    assert [(one[0], *one[-2:]) for one in ledger.unconfirmed(NEXT)] == [(NEXT, 2, 2)]


def test_a_new_owner_goes_on_with_the_slot_that_was_open() -> None:
    one, two = Ledger(), Ledger()
    one.tell(0, np.array([0, 1]), np.array([T0, T0]))
    two.tell(0, np.array([0]), np.array([T0]))
    resumed = Ledger(two.latest())
    resumed.tell(1, np.array([1]), np.array([T0]))
    assert resumed.unconfirmed(0) == one.unconfirmed(0)


def test_sums_beyond_64_bits_are_stored_as_the_most_a_column_holds() -> None:
    ledger = Ledger()
    ledger.tell(0, np.array([0]), np.array([T0]))
    size = 2**23 + 1
    ledger.read(np.full(size, T0), np.full(size, 2**40))
    assert ledger.at(T0).added == size * 2**40 > CELL_MAX
    assert ledger.unconfirmed(0)[0][3] == CELL_MAX


def test_log_time_is_cut_where_slots_change() -> None:
    log_ms = np.array([T0, T0 + 1, NEXT, NEXT + 3 * SLOT_MS])
    assert list(slot_runs(log_ms)) == [(0, 2), (2, 3), (3, 4)]
    assert list(slot_runs(log_ms[:2])) == [(0, 2)]
    assert list(slot_runs(log_ms[:0])) == []


def test_entries_become_rows_with_their_owner() -> None:
    shard = Shard(3, incarnation=2)
    shard.absorb_rows([row(0, 5)], fetch(0, T0))
    snapshot = shard.snapshot(checkpoint=False)
    [found] = ledger_rows([snapshot], 7, "main").to_pylist()
    assert (found["build"], found["replica"], found["shard"]) == (7, "main~2", 3)
    assert int(found["slot"].timestamp()) * 1000 == T0
    assert (found["records"], found["p"], found["first"], found["through"]) == (1, 5, 0, 0)
    snapshot.confirm("flush")
    assert ledger_rows([shard.snapshot(checkpoint=False)], 7, "main").num_rows == 0
