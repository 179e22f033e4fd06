"""Registers folded to a lower precision are those that the same members make at it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BadInputError
from sketches.distinct import Distinct
from sketches.hashing import hashes
from sketches.registers import folded, placed, whole

thorough = settings(max_examples=150, deadline=None, print_blob=True)
columns = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=80)
precisions = st.integers(4, 16)


def distinct_of(members: list[str], precision: int) -> Distinct:
    made = Distinct(precision)
    made.add_many(members)
    return made


@thorough
@given(columns, precisions, precisions)
def test_a_folded_sketch_is_the_one_made_at_the_lower_precision(
    members: list[str], one: int, other: int
) -> None:
    wide, narrow = max(one, other), min(one, other)
    assert distinct_of(members, wide).folded(narrow) == distinct_of(members, narrow)


@thorough
@given(columns, columns, precisions, precisions, precisions)
def test_folding_and_uniting_may_come_in_any_order(
    a: list[str], b: list[str], one: int, two: int, three: int
) -> None:
    narrow, middle, wide = sorted((one, two, three))
    first, second = distinct_of(a, wide).folded(middle).folded(narrow), distinct_of(b, middle)
    first.merge(second.folded(narrow))
    assert first == distinct_of(a + b, narrow)


@thorough
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50), precisions, precisions)
def test_every_hash_is_folded_to_its_place(hashed: list[int], one: int, other: int) -> None:
    """Also those with many zeros, which no text of a test would ever have."""
    wide, narrow = max(one, other), min(one, other)
    by_hand = [_placed(value, wide) for value in hashed]
    expected: dict[int, int] = {}
    for value in hashed:
        index, rank = _placed(value, narrow)
        expected[index] = max(rank, expected.get(index, 0))
    indexes = np.array([index for index, _ in by_hand], np.uint16)
    ranks = np.array([rank for _, rank in by_hand], np.uint8)
    found = folded(indexes, ranks, wide, narrow)
    assert dict(zip(*(column.tolist() for column in found), strict=True)) == expected
    assert found[0].tolist() == sorted(expected)


def _placed(hashed: int, precision: int) -> tuple[int, int]:
    bits = f"{hashed:064b}"
    rest = bits[precision:]
    return int(bits[:precision], 2), len(rest) - len(rest.lstrip("0")) + 1


def test_the_reckoning_by_hand_is_that_of_members() -> None:
    members = [f"user-{number}" for number in range(200)]
    for precision in (4, 12, 16):
        indexes, ranks = placed(members, precision)
        by_hand = [_placed(value, precision) for value in hashes(members).tolist()]
        assert list(zip(indexes.tolist(), ranks.tolist(), strict=True)) == by_hand


def test_nothing_is_unfolded() -> None:
    with pytest.raises(BadInputError, match="cannot be unfolded"):
        distinct_of(["a"], 9).folded(12)


def test_an_estimate_is_told_as_a_whole_number() -> None:
    assert [whole(value) for value in (0.0, 0.5, 1.49, 2.5, 1e6 + 0.5)] == [0, 1, 1, 3, 1_000_001]
    assert whole(float("inf")) == 2**64 - 2048
    assert Distinct(12).uniques() == (0, 0, 0)
    assert distinct_of(["a"], 12).uniques() == (1, 1, 2)
