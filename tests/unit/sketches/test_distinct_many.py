"""Very many small sketches of distinct members."""

import numpy as np
import pytest

from pipeline.errors import BadInputError
from sketches.distinct import Distinct
from sketches.distinct_many import DistinctMany
from sketches.register_table import ROWS_MAX


def batches(count: int, seed: int) -> list[tuple[list[int], list[str]]]:
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        rows = (chance.zipf(1.3, 3000) % 500).tolist()
        found.append(
            (rows, [f"user-{number}" for number in chance.integers(0, 900, 3000).tolist()])
        )
    return found


def test_each_row_has_the_registers_of_a_sketch_of_its_own() -> None:
    together = DistinctMany(10)
    alone = {row: Distinct(10) for row in range(500)}
    for rows, members in batches(30, seed=1):
        together.add_many(rows, members)
        for row, sketch in alone.items():
            sketch.add_many([member for at, member in zip(rows, members, strict=True) if at == row])
    assert all(together.sketch(row) == sketch for row, sketch in alone.items())


def test_what_is_told_as_raised_is_all_that_changed_and_no_more() -> None:
    together, told = DistinctMany(10), {row: Distinct(10) for row in range(500)}
    for rows, members in batches(8, seed=2):
        before = {row: together.sketch(row) for row in range(500)}
        raised = together.add_many(rows, members)
        for row in range(500):
            mine = raised.rows == row
            indexes, ranks = together.sketch(row).changed_since(before[row])
            assert raised.indexes[mine].tolist() == indexes.tolist()
            assert raised.ranks[mine].tolist() == ranks.tolist()
            told[row].merge(Distinct.from_registers(10, indexes, ranks))
        again = together.add_many(rows, members)
        assert again.rows.size == 0
    assert all(together.sketch(row) == sketch for row, sketch in told.items())


def test_a_register_that_was_hit_costs_16_to_32_bytes() -> None:
    together = DistinctMany.for_error(0.02)
    together.add_many(np.arange(50_000), [f"user-{number}" for number in range(50_000)])
    assert 16 * 50_000 <= together.nbytes <= 32 * 50_000


def test_the_greatest_and_the_smallest_row_fit() -> None:
    together = DistinctMany(16)
    together.add_many([0, ROWS_MAX - 1], ["a", "b"])
    assert together.sketch(0).estimate().low == together.sketch(ROWS_MAX - 1).estimate().low == 1
    assert together.sketch(1) == Distinct(16)


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    together = DistinctMany(12)
    together.add_many([1], ["x"])
    for rows, members in (([0], ["a", "b"]), ([0, -1], ["a", "b"]), ([0, 1], ["a", "\ud800"])):
        with pytest.raises(BadInputError):
            together.add_many(rows, members)
    with pytest.raises(BadInputError, match="numbered from 0"):
        together.add_many([ROWS_MAX], ["a"])
    assert together.sketch(0) == Distinct(12)
    assert together.add_many([1], ["x"]).rows.size == 0
    assert together.add_many([], []).rows.size == 0
