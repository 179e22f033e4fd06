"""A growing filter does not depend on how its members were cut into calls."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.errors import BadInputError
from sketches import bloom
from sketches.bloom import GrowingFilter


def members(seed: int, count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Hashes that differ, the same for the same seed."""
    rng = np.random.default_rng(seed)
    high, low = rng.integers(0, 2**64, (2, count), np.uint64)
    return high, low


@settings(max_examples=200, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 80), max_size=120),
    cut=st.integers(1, 120),
    error=st.sampled_from([0.001, 0.1]),
)
def test_members_added_together_are_added_one_by_one(
    numbers: list[int], cut: int, error: float
) -> None:
    """With filters for two members at first, new ones are often taken for known ones."""
    high, low = (half[numbers] for half in members(1, 81))
    with patch.object(bloom, "FIRST_CAPACITY", 2):
        one, many, again = GrowingFilter(error), GrowingFilter(error), GrowingFilter(error)
        by_one = [bool(one.add(high[i : i + 1], low[i : i + 1])[0]) for i in range(len(numbers))]
        parts = range(0, len(numbers), cut)
        together = [many.add(high[i : i + cut], low[i : i + cut]) for i in parts]
        assert [bool(flag) for part in together for flag in part] == by_one
        again.put(high[by_one], low[by_one])
        assert one.to_bytes() == many.to_bytes() == again.to_bytes()
        assert one.filled == many.filled == again.filled == sum(by_one)
        known = GrowingFilter.from_bytes(error, one.filled, one.to_bytes())
        assert not known.add(high, low).any()


@pytest.mark.parametrize(
    ("error", "filled", "size"),
    [(0.1, 10**15, 100), (0.1, -1, 0), (math.nan, 1, 10), (0.0, 1, 10), (2.0, 1, 10), (0.1, 1, 5)],
)
def test_bits_that_are_not_what_is_said_of_them_are_refused_before_room_is_made(
    error: float, filled: int, size: int
) -> None:
    with pytest.raises(BadInputError):
        GrowingFilter.from_bytes(error, filled, bytes(size))
