"""The heaviest keys and the bounds that are certain."""

from collections import Counter

import numpy as np
import pytest

from pipeline.errors import BadInputError
from sketches.heavy import Heavy, HeavyKey


def skewed(rows: int, seed: int = 1) -> list[str]:
    numbers = np.random.default_rng(seed).zipf(1.2, rows) % 20_000
    return [f"hashtag:#{number}" for number in numbers.tolist()]


def test_few_keys_are_counted_exactly_and_ranked() -> None:
    sketch = Heavy.for_error(0.01)
    sketch.add_many(["b", "a", "c", "a", "ü"], [5, 3, 9, 4, 5])
    assert sketch.top(3) == [
        HeavyKey("c", 9, 9, 9),
        HeavyKey("a", 7, 7, 7),
        HeavyKey("b", 5, 5, 5),
    ]
    assert [row.key for row in sketch.top(100)] == ["c", "a", "b", "ü"]
    assert sketch.top(0) == []


def test_removals_lower_a_count() -> None:
    sketch = Heavy.for_error(0.01)
    sketch.add_many(["a", "b", "a", "gone"], [10, 8, -5, -3])
    assert sketch.top(3) == [HeavyKey("b", 8, 8, 8), HeavyKey("a", 5, 5, 5)]
    assert (sketch.added, sketch.removed) == (18, 8)


def test_bounds_are_certain_and_no_heavy_key_is_missing() -> None:
    keys = skewed(100_000)
    truth = Counter(keys)
    sketch = Heavy.for_error(0.005)
    sketch.add_many(keys)
    found = {row.key: row for row in sketch.top(10**6)}
    assert sketch.missed_max <= 0.005 * sketch.added
    assert all(row.low <= truth[key] <= row.high for key, row in found.items())
    assert all(row.high - row.low <= 0.005 * len(keys) for row in found.values())
    assert {key for key, count in truth.items() if count > sketch.missed_max} <= set(found)
    over = {row.key for row in sketch.over(0.005)}
    assert {key for key, count in truth.items() if count > 0.005 * len(keys)} <= over


def test_a_late_giant_and_an_early_one_are_both_there() -> None:
    noise = [f"noise-{number}" for number in range(60_000)]
    sketch = Heavy.for_error(0.01)
    sketch.add_many(["early"] * 1500 + noise + ["late"] * 1500)
    assert {"early", "late"} <= {row.key for row in sketch.over(0.01)}


def test_bounds_hold_with_removals_of_many_keys() -> None:
    keys = skewed(60_000)
    deltas = np.where(np.arange(60_000) % 5 == 0, -1, 2)
    truth: Counter[str] = Counter()
    for key, delta in zip(keys, deltas.tolist(), strict=True):
        truth[key] += delta
    sketch = Heavy(100)
    sketch.add_many(keys, deltas)
    assert sketch.missed_max > 0
    for row in sketch.top(10**6):
        assert row.low <= truth[row.key] <= row.high
        assert row.low <= row.count <= row.high


def test_where_rows_are_cut_and_a_restart_change_nothing() -> None:
    keys, chance = skewed(50_000), np.random.default_rng(3)
    whole, parts = Heavy(50), Heavy(50)
    whole.add_many(keys, offsets=range(50_000))
    start = 0
    while start < len(keys):
        end = start + int(chance.integers(1, 5000))
        parts.add_many(keys[start:end], offsets=np.arange(start, min(end, 50_000)))
        start = end
        if chance.random() < 0.5:
            parts = Heavy.from_bytes(parts.to_bytes())
    assert parts.to_bytes() == whole.to_bytes()
    assert parts.top(50) == whole.top(50)


def test_a_full_block_takes_the_first_count_that_does_not_fit_from_all() -> None:
    block = ["a"] * 5000 + ["b"] * 2000 + ["c"] * 1000 + ["d"] * 192
    roomy, tight = Heavy(3), Heavy(2)
    for sketch in (roomy, tight):
        sketch.add_many(block[:-1])
        assert sketch.missed_max == 0
        sketch.add_many(block[-1:])
    assert roomy.top(9) == [
        HeavyKey("a", 5000, 4808, 5000),
        HeavyKey("b", 2000, 1808, 2000),
        HeavyKey("c", 1000, 808, 1000),
    ]
    assert tight.top(9) == [HeavyKey("a", 5000, 4000, 5000), HeavyKey("b", 2000, 1000, 2000)]
    assert (roomy.missed_max, tight.missed_max) == (192, 1000)


def test_what_it_keeps_is_bounded() -> None:
    sketch = Heavy(100)
    for block in range(5):
        sketch.add_many([f"{block}-{number}" for number in range(16_384)])
    assert len(sketch.top(10**6)) <= 100
    assert len(sketch.to_bytes()) < 10_000


def test_rows_that_were_counted_already_are_skipped() -> None:
    sketch = Heavy(10)
    sketch.add_many(["a", "b"], offsets=[3, 4])
    sketch.add_many(["a", "b", "c"], offsets=[3, 4, 5])
    assert [row.count for row in sketch.top(9)] == [1, 1, 1]
    assert sketch.through == 5


def test_merging_keeps_the_bounds_certain() -> None:
    keys = skewed(40_000)
    truth = Counter(keys)
    first, second = Heavy(100), Heavy(100)
    first.add_many(keys[:15_000])
    second.add_many(keys[15_000:])
    other = Heavy.from_bytes(second.to_bytes())
    other.merge(first)
    first.merge(second)
    assert first.to_bytes() == other.to_bytes()
    assert first.missed_max <= len(keys) / 101
    found = {row.key: row for row in first.top(100)}
    assert all(row.low <= truth[key] <= row.high for key, row in found.items())
    assert {key for key, count in truth.items() if count > len(keys) / 101} <= set(found)
    with pytest.raises(BadInputError, match="no single log"):
        first.add_many(["a"], offsets=[1])


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    sketch = Heavy(10)
    sketch.add_many(["a"], [2**62])
    before = sketch.to_bytes()
    refusals: list[tuple[list[str], list[int]]] = [
        (["b", "\ud83d"], [1, 1]),
        (["b"], [2**62]),
        (["b"], [1, 2]),
    ]
    for keys, deltas in refusals:
        with pytest.raises(BadInputError):
            sketch.add_many(keys, deltas)
    with pytest.raises(BadInputError, match="10 and 11 keys"):
        sketch.merge(Heavy(11))
    with pytest.raises(BadInputError, match="may be missing"):
        sketch.over(0.01)
    for error in (0, 1, 1e-9):
        with pytest.raises(BadInputError, match="not between"):
            Heavy.for_error(error)
    assert sketch.to_bytes() == before
