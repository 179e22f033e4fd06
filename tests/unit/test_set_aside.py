"""Refused cells: what their dead letters hold, and that they are not searched for again."""

import json

import pyarrow as pa

from pipeline.writes.cell_rows import cell_rows
from pipeline.writes.set_aside import CELLS_MAX, FORGET_AFTER_WRITES, SetAside, cell_letters
from tests.unit.test_sink import SLOT, shard


def block(*counters: str, p: int = 3) -> pa.Table:
    cells = [shard(4, (counter, "eu", p, 1)) for counter in counters]
    return cell_rows([cell.snapshot(checkpoint=False) for cell in cells], 2, "main")


def test_a_letter_is_placed_by_shard_and_through_and_holds_the_cell_as_a_row_of_its_table() -> None:
    cells = block("likes:a", "likes:b")
    first, second = cell_letters(cells.to_pylist(), ["because", "x" * 10_000])
    assert (first.partition, first.offset, first.timestamp_ms) == (4, 7, SLOT)
    assert first.row < 0
    assert first.key() != second.key(), "one record may be the last of several cells"
    assert second.key() == cell_letters(cells.to_pylist()[1:], ["another time"])[0].key()
    assert first.reason == "ClickHouse refused this cell: because"
    assert len(second.reason) < 600
    written = json.loads(first.value)
    assert list(written) == cells.column_names
    assert (written["counter"], written["region"], written["p"], written["n"]) == (
        "likes:a",
        "eu",
        3,
        1,
    )
    assert (written["slot"], written["window"]) == ("2025-10-09 09:00:00", "2025-10-09 08:59:00")


def test_a_cell_that_was_refused_is_left_out_of_later_blocks() -> None:
    aside = SetAside()
    cells = block("likes:a", "likes:b", "likes:c")
    assert [part.num_rows for part in aside.split(cells)] == [3, 0]
    assert aside.add(cells, {1: "because"})["counter"].to_pylist() == ["likes:b"]
    assert aside.split(block("likes:x"))[0].num_rows == 1
    assert aside.split(block("likes:b"))[0].num_rows == 0
    later = block("likes:b", "likes:c", "likes:d", p=9)
    others, known = aside.split(later)
    assert others["counter"].to_pylist() == ["likes:c", "likes:d"]
    [letter] = aside.letters(known)
    assert (json.loads(letter.value)["counter"], json.loads(letter.value)["p"]) == ("likes:b", 9)
    assert letter.reason == "ClickHouse refused this cell: because"


def test_a_cell_that_is_taken_again_is_among_the_others_from_then_on() -> None:
    aside = SetAside()
    cells = block("likes:a", "likes:b")
    aside.add(cells, {0: "because", 1: "because"})
    aside.forget(block("likes:a"))
    others, known = aside.split(cells)
    assert others["counter"].to_pylist() == ["likes:a"]
    assert known["counter"].to_pylist() == ["likes:b"]


def test_an_empty_block_has_nothing_to_set_aside() -> None:
    aside = SetAside()
    aside.add(block("likes:a"), {0: "because"})
    others, known = aside.split(block())
    assert (others.num_rows, aside.letters(known)) == (0, [])


def test_another_cell_of_the_same_counter_is_tried() -> None:
    aside = SetAside()
    aside.add(block("likes:a"), {0: "because"})
    cells = block("likes:a")
    other = cells.set_column(3, "window", cells["slot"])
    assert aside.split(other)[0].num_rows == 1


def test_a_refused_cell_is_among_the_others_again_after_some_writes() -> None:
    aside = SetAside()
    cells = block("likes:a")
    aside.add(cells, {0: "because"})
    left = [aside.split(cells)[0].num_rows for _ in range(FORGET_AFTER_WRITES)]
    assert left == [0] * (FORGET_AFTER_WRITES - 1) + [1]


def test_what_is_remembered_is_bounded() -> None:
    aside = SetAside()
    cells = block("likes:a", "likes:b")
    many = pa.concat_tables([cells] * (CELLS_MAX // 2))
    counters = pa.array([f"x:{number}" for number in range(CELLS_MAX)])
    aside.add(many.set_column(1, "counter", counters), dict.fromkeys(range(CELLS_MAX), "because"))
    aside.add(cells, {0: "because", 1: "because"})
    assert aside.split(cells)[0].num_rows == 0
    assert len(aside._reasons) == CELLS_MAX
