"""Counts by key in a Count-Min sketch."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import BadInputError
from sketches.frequency import Frequency

KEYS = [f"likes:{number % 50}" for number in range(1000)]


def equal(one: Frequency, other: Frequency) -> bool:
    tables = zip(one.counters(), other.counters(), strict=True)
    totals = (one.added, one.removed, one.through) == (other.added, other.removed, other.through)
    return totals and all(np.array_equal(mine, theirs) for mine, theirs in tables)


def test_error_and_confidence_decide_the_size() -> None:
    sketch = Frequency.for_error(0.001, confidence=0.99)
    assert (sketch.rows, sketch.width) == (6, 2719)
    assert sketch.error <= 0.001
    assert Frequency.for_error(0.01, confidence=0.5).rows == 2


@pytest.mark.parametrize(
    ("error", "confidence"), [(0, 0.9), (1, 0.9), (0.1, 0), (0.1, 1), (1e-9, 0.9)]
)
def test_a_size_that_cannot_be_is_refused(error: float, confidence: float) -> None:
    with pytest.raises(BadInputError):
        Frequency.for_error(error, confidence)


def test_where_keys_are_counted_is_that_of_all_times() -> None:
    sketch = Frequency(3, 1000)
    sketch.add_many(["user-42"])
    assert np.argmax(sketch.counters()[0], axis=1).tolist() == [138, 283, 110]


def test_few_keys_are_counted_exactly() -> None:
    sketch = Frequency.for_error(0.001)
    sketch.add_many(["a", "b", "a", "ü"], [5, 7, -2, 2**40])
    assert sketch.estimate("a").value == 3
    assert sketch.estimate("b").value == 7
    assert sketch.estimate("ü").value == 2**40
    assert sketch.estimate("nobody").high == 0
    assert (sketch.added, sketch.removed) == (12 + 2**40, 2)


def test_without_removals_a_count_is_never_too_low() -> None:
    sketch = Frequency(2, 8)
    sketch.add_many(KEYS)
    found = sketch.estimate_many([f"likes:{number}" for number in range(50)])
    assert (found.values >= 20).all()
    assert (found.highs == found.values).all()
    assert (found.lows <= 20).all()


def test_removals_widen_both_bounds() -> None:
    sketch = Frequency(3, 64)
    sketch.add_many(KEYS)
    sketch.add_many(KEYS[:500], [-1] * 500)
    found = sketch.estimate_many([f"likes:{number}" for number in range(50)])
    assert ((found.lows <= 10) & (found.highs >= 10)).all()
    assert ((found.lows <= found.values) & (found.values <= found.highs)).all()
    most = (sketch.error * 1000) + (sketch.error * 500)
    assert (found.highs - found.lows <= most).all()


def test_rows_that_were_counted_already_are_skipped() -> None:
    once, twice = Frequency(3, 64), Frequency(3, 64)
    once.add_many(KEYS, offsets=range(1000))
    twice.add_many(KEYS[:600], offsets=range(600))
    twice.add_many(KEYS[300:], offsets=range(300, 1000))
    twice.add_many(KEYS, offsets=range(1000))
    assert once.through == 999
    assert equal(once, twice)


def test_all_rows_of_an_offset_count() -> None:
    sketch = Frequency(3, 64)
    sketch.add_many(["a", "a", "b"], offsets=[7, 7, 8])
    sketch.add_many(["a", "c"], offsets=[8, 9])
    assert (sketch.added, sketch.through) == (4, 9)


@pytest.mark.parametrize("offsets", [[1], [2, 1], [-1, 0], [[0, 1]]])
def test_offsets_that_make_no_sense_are_refused(offsets: list[int]) -> None:
    sketch = Frequency(3, 64)
    with pytest.raises(BadInputError, match="log's order"):
        sketch.add_many(["a", "b"], offsets=offsets)
    assert sketch.added == 0


@pytest.mark.parametrize("deltas", [[1], [1.5, 1.0], [2**64 - 1, 1], [-(2**63), 1], ["1", "2"]])
def test_deltas_that_do_not_fit_are_refused(deltas: list[int]) -> None:
    sketch = Frequency(3, 64)
    with pytest.raises(BadInputError, match="delta"):
        sketch.add_many(["a", "b"], deltas)
    assert (sketch.added, sketch.removed) == (0, 0)


def test_a_total_past_63_bits_is_refused_and_changes_nothing() -> None:
    sketch = Frequency(3, 64)
    sketch.add_many(["a", "b"], [2**62, 2**62 - 1])
    before = Frequency.from_bytes(sketch.to_bytes())
    for keys, deltas in ((["c"], [1]), (["c", "c", "c"], [2**62] * 3)):
        with pytest.raises(BadInputError, match="2\\^63"):
            sketch.add_many(keys, deltas)
    with pytest.raises(BadInputError, match="2\\^63"):
        sketch.merge(before)
    assert equal(sketch, before)


def test_merging_adds_and_belongs_to_no_log_any_more() -> None:
    whole, first, second = Frequency(3, 64), Frequency(3, 64), Frequency(3, 64)
    whole.add_many(KEYS, [1, -1] * 500)
    first.add_many(KEYS[:400], [1, -1] * 200, offsets=range(400))
    second.add_many(KEYS[400:], [1, -1] * 300, offsets=range(600))
    first.merge(second)
    whole.through = None
    assert equal(first, whole)
    with pytest.raises(BadInputError, match="no single log"):
        first.add_many(["a"], offsets=[5000])
    assert Frequency.from_bytes(first.to_bytes()).through is None


def test_a_sketch_may_be_merged_with_itself() -> None:
    sketch = Frequency.for_error(0.001)
    sketch.add_many(["a", "a", "b"], [1, 1, -3])
    sketch.merge(sketch)
    assert (sketch.estimate("a").value, sketch.estimate("b").value) == (4, -6)


def test_other_sizes_are_not_merged() -> None:
    with pytest.raises(BadInputError, match="3 x 64 and of 3 x 65"):
        Frequency(3, 64).merge(Frequency(3, 65))


def test_its_bytes_are_small_while_little_is_counted() -> None:
    sketch = Frequency.for_error(0.001)
    assert len(sketch.to_bytes()) < 1000
    sketch.add_many(pa.array(["a"]), [3], offsets=[12])
    assert len(sketch.to_bytes()) < 1000
    assert equal(Frequency.from_bytes(sketch.to_bytes()), sketch)
