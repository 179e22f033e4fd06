"""The table of registers is a dictionary of greatest ranks, whatever its places are."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sketches import register_table
from sketches.register_table import ROWS_MAX, Raised, RegisterTable, packed

Registers = dict[tuple[int, int], int]


def columns(
    count: int, rows: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.uint8]]:
    chance = np.random.default_rng(seed)
    return (
        chance.integers(0, rows, count),
        chance.integers(0, 64, count).astype(np.uint16),
        np.minimum(chance.geometric(0.5, count), 61).astype(np.uint8),
    )


def as_dict(raised: Raised) -> Registers:
    found = zip(raised.rows.tolist(), raised.indexes.tolist(), raised.ranks.tolist(), strict=True)
    return {(row, index): rank for row, index, rank in found}


def raise_by_hand(known: Registers, given: list[tuple[int, int, int]]) -> Registers:
    """What rose, to what it rose."""
    before = dict(known)
    for row, index, rank in given:
        known[row, index] = max(known.get((row, index), 0), rank)
    return {key: rank for key, rank in known.items() if rank > before.get(key, 0)}


@pytest.mark.parametrize("rows", [1, 40, 100_000])
def test_what_rises_is_what_a_dictionary_says(rows: int) -> None:
    table, known = RegisterTable(), Registers()
    for seed in range(20):
        given = columns(1000, rows, seed)
        rose = raise_by_hand(known, list(zip(*(part.tolist() for part in given), strict=True)))
        raised = table.raise_to(packed(*given))
        assert as_dict(raised) == rose
        assert raised.packed.tolist() == sorted(raised.packed.tolist())
        assert len(raised) == len(rose)
    assert as_dict(table.entries()) == known
    assert len(table) == len(known)
    assert table.nbytes >= 16 * len(known)


def test_registers_that_all_have_the_same_home_find_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(register_table, "_SCATTER", np.uint64(0))
    table, known = RegisterTable(), Registers()
    for seed in range(3):
        given = columns(200, 50, seed)
        rose = raise_by_hand(known, list(zip(*(part.tolist() for part in given), strict=True)))
        assert as_dict(table.raise_to(packed(*given))) == rose
    assert as_dict(table.entries()) == known


def test_the_first_and_the_last_register_there_can_be_are_told_apart_from_none() -> None:
    table = RegisterTable()
    ends = (np.array([0, ROWS_MAX - 1]), np.array([0, 65535], np.uint16))
    for ranks, rises in (((1, 60), True), ((1, 60), False), ((1, 61), True)):
        raised = table.raise_to(packed(*ends, np.array(ranks, np.uint8)))
        assert bool(len(raised)) is rises
    assert as_dict(table.entries()) == {(0, 0): 1, (ROWS_MAX - 1, 65535): 61}


def test_nothing_raises_nothing() -> None:
    table = RegisterTable()
    assert len(table.raise_to(np.zeros(0, np.uint64))) == 0
    assert (len(table), len(table.entries())) == (0, 0)


def test_of_several_parts_the_greatest_is_left_once() -> None:
    parts = [columns(300, 5, seed) for seed in range(3)]
    expected: Registers = {}
    for part in parts:
        raise_by_hand(expected, list(zip(*(one.tolist() for one in part), strict=True)))
    found = Raised.greatest([Raised(packed(*part)) for part in parts])
    assert as_dict(found) == expected
    assert len(found) == len(expected)
    assert len(Raised.greatest([])) == 0
