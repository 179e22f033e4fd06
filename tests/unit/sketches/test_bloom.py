"""A growing filter finds all who are in, and takes no more for known than it says."""

import numpy as np
import pytest

from pipeline.errors import BadInputError
from sketches.bloom import FIRST_CAPACITY, GrowingFilter
from tests.property.test_bloom import members


@pytest.mark.parametrize("error", [0.1, 0.01, 0.001])
def test_no_more_new_members_are_taken_for_known_ones_than_is_stated(error: float) -> None:
    found, lost, size = GrowingFilter(error), 0, 30_000
    for seed in range(5):
        new = found.add(*members(seed, size))
        lost += size - int(new.sum())
    # Far more than the first two are for; three standard deviations above the rate are allowed.
    expected = 5 * size * error
    assert lost <= expected + 3 * expected**0.5
    assert lost > 0


@pytest.mark.parametrize("filled", [0, 1, FIRST_CAPACITY, FIRST_CAPACITY + 1, 50_000])
def test_its_bytes_are_the_whole_filter(filled: int) -> None:
    found = GrowingFilter(0.01)
    found.add(*members(1, filled))
    again = GrowingFilter.from_bytes(0.01, found.filled, found.to_bytes())
    assert again.to_bytes() == found.to_bytes()
    assert again.filled == found.filled
    more = members(2, 10_000)
    assert (again.add(*more) == found.add(*more)).all()


def test_bytes_of_another_filter_are_refused() -> None:
    found = GrowingFilter(0.01)
    found.add(*members(1, 10))
    with pytest.raises(BadInputError, match="has 0 bytes, not"):
        GrowingFilter.from_bytes(0.01, 0, found.to_bytes())
    with pytest.raises(BadInputError, match="a filter of 10 members has"):
        GrowingFilter.from_bytes(0.01, 10, found.to_bytes()[:-1])


def test_a_member_takes_a_few_bytes() -> None:
    found = GrowingFilter(0.001)
    found.add(*members(1, FIRST_CAPACITY * 21))  # The first three are full.
    assert found.size_bytes / found.filled < 3
    assert np.isclose(found.filled, FIRST_CAPACITY * 21, rtol=0.001)
