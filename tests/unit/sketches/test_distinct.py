"""Distinct members from HyperLogLog registers."""

import math

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import BadInputError
from sketches.distinct import Distinct
from sketches.precision import standard_error
from sketches.registers import placed, rank_max


def made_of(members: range, precision: int = 12, name: str = "user") -> Distinct:
    made = Distinct(precision)
    made.add_many([f"{name}-{number}" for number in members])
    return made


def test_the_error_decides_the_precision() -> None:
    assert [Distinct.for_error(error).precision for error in (0.26, 0.05, 0.02, 0.0163)] == [
        *(4, 9, 12, 12)
    ]
    assert Distinct.for_error(standard_error(16)).precision == 16
    for error in np.linspace(0.0041, 0.26, 200):
        precision = Distinct.for_error(error).precision
        assert standard_error(precision) <= error
        assert precision == 4 or standard_error(precision - 1) > error


@pytest.mark.parametrize("error", [0, 0.004, 0.27, 1, -0.1, math.nan])
def test_an_error_that_cannot_be_kept_is_refused(error: float) -> None:
    with pytest.raises(BadInputError, match=r"between 0\.0041 and 0\.26"):
        Distinct.for_error(error)


def test_registers_and_ranks_are_those_of_all_times() -> None:
    indexes, ranks = placed(["", "a", "user-42", "🐈"], 12)
    assert list(zip(indexes.tolist(), ranks.tolist(), strict=True)) == [
        *((2478, 4), (578, 6), (1837, 1), (879, 1))
    ]


@pytest.mark.parametrize("precision", [4, 12, 16])
def test_a_rank_counts_leading_zeros_bit_by_bit(
    precision: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    width = 64 - precision
    rests = [0, *(1 << bit for bit in range(width)), *((2 << bit) - 1 for bit in range(width))]
    hashed = np.array([(3 << width) | rest for rest in rests], np.uint64)
    monkeypatch.setattr("sketches.registers.hashes", lambda _members: hashed)
    indexes, ranks = placed([], precision)
    assert set(indexes.tolist()) == {3}
    assert ranks.tolist() == [width - rest.bit_length() + 1 for rest in rests]
    assert ranks.max() == rank_max(precision)


def test_nothing_counts_zero_and_one_counts_one() -> None:
    empty = Distinct(12).estimate()
    assert (empty.value, empty.low, empty.high) == (0, 0, 0)
    assert made_of(range(1)).estimate().value == pytest.approx(1, abs=0.001)


@pytest.mark.parametrize("members", [10, 100, 1000, 3000, 10_000, 100_000])
def test_an_estimate_is_near_and_its_bounds_hold_the_truth(members: int) -> None:
    found = made_of(range(members)).estimate()
    assert found.low <= members <= found.high
    assert found.low <= found.value <= found.high
    assert abs(found.value / members - 1) < 2 * standard_error(12)


def test_members_are_counted_once() -> None:
    once, often = made_of(range(500)), made_of(range(500))
    for _ in range(3):
        often.add_many([f"user-{number}" for number in reversed(range(500))])
    assert once == often


def test_all_registers_at_their_greatest_rank_are_beyond_counting() -> None:
    full = Distinct.from_registers(4, range(16), [rank_max(4)] * 16)
    assert full.estimate().value == math.inf
    assert full.estimate().low == 16
    nearly = Distinct.from_registers(4, range(16), [rank_max(4)] * 15 + [rank_max(4) - 1])
    assert 2**60 < nearly.estimate().value < math.inf


def test_it_is_small_while_few_and_bounded_when_many() -> None:
    sizes = [made_of(range(members)).__sizeof__() for members in (0, 1, 10, 100, 100_000)]
    assert sizes[0] < sizes[1] < 100
    assert sizes[2] < 150
    assert sizes[3] < 500
    assert sizes[4] < 4096 + 300
    assert len(made_of(range(100_000)).to_bytes()) < 4096 + 16


def test_only_changed_registers_are_told_since_a_copy() -> None:
    sketch = made_of(range(2000))
    before = sketch.copy()
    assert sketch.changed_since(before)[0].size == 0
    sketch.add_many([f"other-{number}" for number in range(50)])
    indexes, ranks = sketch.changed_since(before)
    assert 0 < len(indexes) <= 50
    assert before != sketch
    before.merge(Distinct.from_registers(12, indexes, ranks))
    assert before == sketch


def test_a_copy_of_a_large_one_stays_as_it_is() -> None:
    sketch = made_of(range(50_000))
    before, held = sketch.copy(), sketch.to_bytes()
    sketch.add_many(["one more" + str(number) for number in range(5000)])
    assert before.to_bytes() == held != sketch.to_bytes()


def test_sketches_of_different_precision_are_not_united() -> None:
    with pytest.raises(BadInputError, match="precision 12 and 11"):
        Distinct(12).merge(Distinct(11))
    with pytest.raises(BadInputError, match="precision 12 and 11"):
        Distinct(12).changed_since(Distinct(11))


@pytest.mark.parametrize(
    ("indexes", "ranks"),
    [([4096], [1]), ([-1], [1]), ([0], [0]), ([0], [54]), ([0, 1], [1]), ([[0]], [[1]])],
)
def test_registers_that_do_not_fit_are_refused(indexes: list[int], ranks: list[int]) -> None:
    with pytest.raises(BadInputError, match=r"fit|another precision"):
        Distinct.from_registers(12, indexes, ranks)


def test_a_refused_column_changes_nothing() -> None:
    sketch = made_of(range(10))
    before = sketch.copy()
    with pytest.raises(BadInputError):
        sketch.add_many(["fine", "\udfff"])
    with pytest.raises(BadInputError):
        sketch.add_many(pa.array(["fine", None]))
    assert sketch == before


def test_an_empty_column_is_fine() -> None:
    sketch = made_of(range(3))
    before = sketch.copy()
    sketch.add_many([])
    sketch.add_many(pa.array([], pa.string()))
    assert sketch == before
