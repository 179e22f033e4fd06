"""Tiny counters of a byte or two."""

import math

import numpy as np
import pytest

from pipeline.errors import BadInputError
from sketches.morris import Morris


def one_by_one(sketch: Morris, numbers: list[int], deltas: list[int]) -> None:
    for offset, (number, delta) in enumerate(zip(numbers, deltas, strict=True)):
        sketch.add_many([number], [delta], partition=5, offsets=[offset])


def test_levels_are_those_of_all_times() -> None:
    sketch = Morris.for_error(0.25, 3)
    sketch.add_many([0] * 1000 + [1] * 100 + [2], partition=7, offsets=range(1101))
    assert sketch.levels().tolist() == [42, 24, 1]


@pytest.mark.parametrize("error", [0.1, 0.25])
def test_a_column_at_once_counts_like_row_after_row(error: float) -> None:
    chance = np.random.default_rng(1)
    numbers = (chance.zipf(1.5, 3000) % 100).tolist()
    deltas = chance.choice([0, 1, 1, 1, 2, 50, 10_000], 3000).tolist()
    whole, single = Morris.for_error(error, 100), Morris.for_error(error, 100)
    whole.add_many(numbers, deltas, partition=5, offsets=range(3000))
    one_by_one(single, numbers, deltas)
    assert whole.levels().tolist() == single.levels().tolist()
    assert whole.to_bytes() == single.to_bytes()


def test_one_addition_is_counted_exactly() -> None:
    sketch = Morris.for_error(0.25, 2)
    sketch.add_many([0], partition=0, offsets=[0])
    assert sketch.estimates().tolist() == [1, 0]
    assert (sketch.estimate(1).low, sketch.estimate(1).high) == (0, 0)


@pytest.mark.parametrize("error", [0.1, 0.25, 0.3])
def test_the_mean_is_right_and_the_error_as_asked_for(error: float) -> None:
    counters, additions = 2000, 300
    sketch = Morris.for_error(error, counters)
    for turn in range(additions):
        places = np.arange(counters) + turn * counters
        sketch.add_many(np.arange(counters), partition=1, offsets=places)
    ratios = sketch.estimates() / additions
    assert abs(ratios.mean() - 1) < 4 * error / math.sqrt(counters)
    assert ratios.std() < 1.1 * error


def test_large_deltas_keep_the_mean_too() -> None:
    counters = 4000
    sketch = Morris.for_error(0.25, counters)
    for turn in range(5):
        places = np.arange(counters) + turn * counters
        deltas = np.full(counters, 1234)
        sketch.add_many(np.arange(counters), deltas, partition=1, offsets=places)
    assert abs(sketch.estimates().mean() / 6170 - 1) < 4 * 0.25 / math.sqrt(counters)


def test_bounds_hold_with_the_confidence_they_claim() -> None:
    """A fixed seed, 1000 trials per count: 95 % less three standard deviations of the share."""
    for additions in (1, 2, 3, 5, 10, 40, 400):
        sketch = Morris.for_error(0.25, 1000)
        numbers = np.repeat(np.arange(1000), additions)
        sketch.add_many(numbers, partition=2, offsets=range(len(numbers)))
        held = sum(
            sketch.estimate(number).low <= additions <= sketch.estimate(number).high
            for number in range(1000)
        )
        assert held / 1000 > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 1000), additions


def test_other_places_have_other_chances() -> None:
    levels = []
    for partition, row in ((0, 0), (1, 0), (0, 1)):
        sketch = Morris.for_error(0.25, 50)
        numbers = np.tile(np.arange(50), 100)
        sketch.add_many(numbers, partition=partition, offsets=range(5000), rows=np.full(5000, row))
        levels.append(tuple(sketch.levels().tolist()))
    assert len(set(levels)) == 3


def test_rows_that_were_counted_already_are_skipped() -> None:
    sketch = Morris.for_error(0.25, 1)
    sketch.add_many([0, 0], partition=0, offsets=[3, 4])
    before = sketch.to_bytes()
    sketch.add_many([0, 0], partition=0, offsets=[3, 4])
    assert sketch.to_bytes() == before
    assert sketch.through == 4


def test_a_byte_is_enough_from_an_error_of_22_percent_on() -> None:
    assert Morris(0.22, 10)._levels.nbytes == 10
    assert Morris(0.21, 10)._levels.nbytes == 20
    assert Morris(0.22, 1)._values[-1] > 2**36
    assert Morris(0.1, 1)._values[-1] >= 2**53


def test_a_counter_at_its_end_stays_there_and_says_so() -> None:
    sketch = Morris.for_error(0.25, 1)
    for offset in range(3):
        sketch.add_many([0], [2**62], partition=0, offsets=[offset])
    assert sketch.levels().tolist() == [255]
    assert sketch.estimate(0).high == math.inf


def test_merging_adds_the_values_whoever_merges() -> None:
    one, other = Morris.for_error(0.25, 2000), Morris.for_error(0.25, 2000)
    numbers = np.repeat(np.arange(2000), 50)
    one.add_many(numbers, partition=0, offsets=range(len(numbers)))
    other.add_many(numbers, partition=1, offsets=range(len(numbers)))
    swapped = Morris.from_bytes(other.to_bytes())
    swapped.merge(one, seed=9)
    one.merge(other, seed=9)
    assert one.levels().tolist() == swapped.levels().tolist()
    assert abs(one.estimates().mean() / 100 - 1) < 4 * 0.3 / math.sqrt(2000)
    assert Morris.from_bytes(one.to_bytes()).through is None


def test_more_counters_begin_at_zero() -> None:
    sketch = Morris.for_error(0.25, 1)
    sketch.add_many([0], partition=0, offsets=[0])
    sketch.grow(3)
    assert sketch.estimates().tolist() == [1, 0, 0]
    with pytest.raises(BadInputError, match="cannot become 2"):
        sketch.grow(2)


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    sketch = Morris.for_error(0.25, 3)
    for numbers, deltas in (([0, 3], [1, 1]), ([0, -1], [1, 1]), ([0, 1], [1, -1])):
        with pytest.raises(BadInputError):
            sketch.add_many(numbers, deltas, partition=0, offsets=[0, 1])
    with pytest.raises(BadInputError, match="0 to 2 only"):
        sketch.estimate(3)
    with pytest.raises(BadInputError, match="cannot be merged"):
        sketch.merge(Morris(0.25, 4), seed=1)
    for error in (0.09, 0.31, math.nan):
        with pytest.raises(BadInputError, match="not between"):
            Morris.for_error(error, 1)
    assert sketch.to_bytes() == Morris.for_error(0.25, 3).to_bytes()


def test_a_counter_higher_than_any_can_be_is_refused() -> None:
    counters = Morris(0.2, 1)
    counters._levels[0] = 2**16 - 1
    with pytest.raises(BadInputError, match="higher than any can be"):
        Morris.from_bytes(counters.to_bytes())
