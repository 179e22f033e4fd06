"""Rows by cell, in columns: as a loop over the rows would group them."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.cell_groups import CellGroups, CellSums
from pipeline.cells import CellKey

Row = tuple[str, str, int, int, int, int]

ROWS: list[Row] = [
    ("b:ü", "eu", 120_000, 5, 0, 10),
    ("a:x", "", 60_000, 1, 0, 11),
    ("b:ü", "eu", 120_000, 0, 2, 11),
    ("b:ü", "日本", 120_000, 2**40, 0, 12),
    ("b:ü", "eu", 0, 1, 0, 12),
    ("a:x", "", 60_000, 3, 0, 17),
]


def table(rows: list[Row]) -> pa.Table:
    names = ("counter", "region", "window_ms", "p", "n", "offset")
    types = (pa.string(), pa.string(), *[pa.int64()] * 4)
    columns = zip(*rows, strict=True) if rows else ([],) * 6
    fields = zip(names, types, columns, strict=True)
    return pa.table({name: pa.array(column, of) for name, of, column in fields})


def keys(rows: list[Row]) -> list[str]:
    return [CellKey(*row[:3]).text() for row in rows]


def test_every_cell_is_there_once_in_the_order_of_the_log() -> None:
    groups = CellGroups.of_rows(table(ROWS))
    assert groups.keys == list(dict.fromkeys(keys(ROWS)))
    assert [groups.keys[group] for group in groups.which] == keys(ROWS)
    columns = (groups.counters.to_pylist(), groups.regions.to_pylist(), groups.windows_ms.tolist())
    assert [CellKey(*key).text() for key in zip(*columns, strict=True)] == groups.keys


@pytest.mark.parametrize("chunks", [2, 4])
def test_columns_in_chunks_are_grouped_as_one(chunks: int) -> None:
    parts = [table(ROWS[start::chunks]) for start in range(chunks)]
    rows = [row for start in range(chunks) for row in ROWS[start::chunks]]
    groups = CellGroups.of_rows(pa.concat_tables(parts))
    assert [groups.keys[group] for group in groups.which] == keys(rows)


def test_of_the_chosen_rows_only_their_cells_are_left() -> None:
    chosen = np.array([False, True, False, False, True, True])
    groups = CellGroups.of_rows(table(ROWS)).where(chosen)
    assert [groups.keys[group] for group in groups.which] == keys([ROWS[1], ROWS[4], ROWS[5]])
    assert set(groups.counter_of().items()) == {(keys(ROWS)[1], "a:x"), (keys(ROWS)[4], "b:ü")}


def test_keys_that_are_given_are_groups_of_their_own() -> None:
    given = [CellKey(*row[:3]) for row in ROWS]
    groups = CellGroups.of_keys(given)
    assert [groups.keys[group] for group in groups.which] == keys(ROWS)
    assert groups.counters.to_pylist() == [row[0] for row in ROWS]


def test_what_the_rows_of_a_cell_add_up_to() -> None:
    rows = table(ROWS)
    groups = CellGroups.of_rows(rows)
    sums = CellSums.of(rows, groups)
    columns = (sums.p, sums.n, sums.first, sums.last)
    found = zip(groups.keys, *(column.tolist() for column in columns), strict=True)
    assert {key: tuple(values) for key, *values in found} == {
        keys(ROWS)[0]: (5, 2, 10, 11),
        keys(ROWS)[1]: (4, 0, 11, 17),
        keys(ROWS)[3]: (2**40, 0, 12, 12),
        keys(ROWS)[4]: (1, 0, 12, 12),
    }
    assert sums.duplicates is None


def test_duplicates_are_summed_where_there_are_any() -> None:
    rows = table(ROWS).append_column("duplicates", pa.array([1, 0, 1, 0, 0, 1]))
    sums = CellSums.of(rows, CellGroups.of_rows(rows))
    assert sums.duplicates is not None
    assert sums.duplicates.tolist() == [2, 1, 0, 0]


def test_no_rows_have_no_cells() -> None:
    for groups in (CellGroups.of_rows(table([])), CellGroups.of_keys([])):
        assert (groups.keys, len(groups.which)) == ([], 0)
        assert CellSums.of(table([]), groups).p.tolist() == []
