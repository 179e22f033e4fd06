"""Cells: what they promise to the shard that holds them."""

import pyarrow as pa
import pytest

from pipeline.cells import CellKey, SlotCells
from pipeline.rules import CountingRules
from tests.kit.cells import cell_values

RULES = CountingRules()

Row = tuple[str, str, int, int, int]


def rows(*values: Row) -> pa.Table:
    """Rows of counter, region, window_ms, delta, offset, as a shard hands them to a slot."""
    counter, region, window_ms, delta, offset = zip(*values, strict=True) if values else ([],) * 5
    return pa.table(
        {
            "counter": pa.array(counter, pa.string()),
            "region": pa.array(region, pa.string()),
            "window_ms": pa.array(window_ms, pa.int64()),
            "p": pa.array([max(value, 0) for value in delta], pa.int64()),
            "n": pa.array([max(-value, 0) for value in delta], pa.int64()),
            "offset": pa.array(offset, pa.int64()),
        }
    )


def contents(cells: SlotCells) -> dict[CellKey, tuple[int, int, int]]:
    values = cells.values()
    columns = zip(values.p.tolist(), values.n.tolist(), values.through.tolist(), strict=True)
    return dict(zip(map(CellKey.parse, values.keys), columns, strict=True))


@pytest.mark.parametrize("counter", ["a:b", "a: b 3 c", "ü:ß\0x", "é😀:\n"])
@pytest.mark.parametrize("region", ["", "eu", "1 2", "日本", "0"])
def test_a_key_survives_being_text_whatever_it_holds(counter: str, region: str) -> None:
    key = CellKey(counter, region, 1_760_000_040_000)
    assert CellKey.parse(key.text()) == key


def test_rows_are_summed_per_counter_region_and_window_with_removals_apart() -> None:
    cells = SlotCells(0)
    cells.absorb(
        rows(
            ("a:x", "eu", 60_000, 5, 10),
            ("a:x", "eu", 60_000, -2, 11),
            ("a:x", "us", 60_000, 1, 12),
            ("a:x", "eu", 120_000, 1, 13),
            ("a:y", "eu", 60_000, 1, 14),
            ("a:x", "eu", 60_000, 1, 15),
        ),
        change=1,
        rules=RULES,
        guard=False,
    )
    assert contents(cells) == {
        CellKey("a:x", "eu", 60_000): (6, 2, 15),
        CellKey("a:x", "us", 60_000): (1, 0, 12),
        CellKey("a:x", "eu", 120_000): (1, 0, 13),
        CellKey("a:y", "eu", 60_000): (1, 0, 14),
    }


def test_a_guarded_cell_skips_rows_it_has_already_counted_and_only_those() -> None:
    cells = SlotCells(0)
    cells.restore(cell_values(CellKey("a:x", "", 0).text(), 7, 0, 20), 1, 0, RULES)
    batch = rows(("a:x", "", 0, 1, 20), ("a:x", "", 0, 1, 21), ("a:y", "", 0, 1, 5))
    cells.absorb(batch, change=2, rules=RULES, guard=True)
    cells.absorb(batch, change=3, rules=RULES, guard=True)
    assert contents(cells) == {CellKey("a:x", "", 0): (8, 0, 21), CellKey("a:y", "", 0): (1, 0, 5)}


def test_restoring_keeps_the_greater_through() -> None:
    cells = SlotCells(0)
    key = CellKey("a:x", "", 0).text()
    for p, through in [(5, 50), (3, 30)]:
        cells.restore(cell_values(key, p, 0, through), 1, 0, RULES)
    assert contents(cells) == {CellKey("a:x", "", 0): (5, 0, 50)}


def test_many_cells_outgrow_the_columns_without_losing_any() -> None:
    cells = SlotCells(0)
    for first in range(0, 5_000, 100):
        batch = [(f"a:{i}", "", 0, 1, i) for i in range(first, first + 150)]
        cells.absorb(rows(*batch), change=1, rules=RULES, guard=True)
    assert len(cells) == 5_050
    assert {value for value in contents(cells).values() if value[0] != 1} == set()


def test_a_confirmed_cell_leaves_only_the_dirty_set_it_was_confirmed_for() -> None:
    cells = SlotCells(0)
    cells.absorb(rows(("a:x", "", 0, 1, 1)), change=1, rules=RULES, guard=False)
    cells.snapshot("flush").confirm()
    assert cells.snapshot("flush").values.keys == []
    assert cells.snapshot("checkpoint").values.keys == [CellKey("a:x", "", 0).text()]
    assert not cells.is_clean()
    cells.snapshot("checkpoint").confirm()
    assert cells.is_clean()


def test_a_cell_that_changed_after_the_snapshot_stays_dirty() -> None:
    cells = SlotCells(0)
    cells.absorb(
        rows(("a:x", "", 0, 1, 1), ("a:y", "", 0, 1, 2)), change=1, rules=RULES, guard=False
    )
    snapshot = cells.snapshot("flush")
    cells.absorb(rows(("a:x", "", 0, 1, 3)), change=2, rules=RULES, guard=False)
    snapshot.confirm()
    assert snapshot.values.p.tolist() == [1, 1]
    assert cells.snapshot("flush").values.keys == [CellKey("a:x", "", 0).text()]


def test_a_snapshot_confirmed_after_the_columns_grew_still_counts() -> None:
    cells = SlotCells(0)
    cells.absorb(rows(("a:x", "", 0, 1, 1)), change=1, rules=RULES, guard=False)
    snapshot = cells.snapshot("checkpoint")
    cells.absorb(
        rows(*((f"b:{i}", "", 0, 1, i) for i in range(500))), change=2, rules=RULES, guard=False
    )
    snapshot.confirm()
    assert CellKey("a:x", "", 0).text() not in cells.snapshot("checkpoint").values.keys
    assert len(cells.snapshot("checkpoint").rows) == 500


def test_absorbing_nothing_changes_nothing() -> None:
    cells = SlotCells(0)
    cells.absorb(rows(), change=1, rules=RULES, guard=False)
    cells.absorb(rows(), change=2, rules=RULES, guard=True)
    assert len(cells) == 0
    assert cells.is_clean()
    assert cells.greatest_through() == -1
