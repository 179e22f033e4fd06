"""Combined increments sum to what was given, cell by cell, additions and removals apart."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.producer.combining import Cells, Combined, combine, moments

Event = tuple[int, int, int, int, bool]
"""Counter, region, time, delta, and whether it has neither member nor id."""

NOW_MS = 1_700_000_000_000 - 1_700_000_000_000 % 60_000
thorough = settings(max_examples=100, deadline=None)
ROW = st.tuples(
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from(
        [
            0,
            1,
            60_000,
            NOW_MS - 60_001,
            NOW_MS - 60_000,
            NOW_MS - 1,
            NOW_MS,
            NOW_MS + 59_999,
            NOW_MS + 60_001,
        ]
    ),
    st.sampled_from([-(2**40), -3, -1, 1, 2, 2**39, 2**40]),
    st.booleans(),
)


def combined(rows: list[Event]) -> Combined:
    *numbers, plain = zip(*rows, strict=True)
    counter, region, at_ms, delta = (np.array(column, np.int64) for column in numbers)
    cells = Cells(counter, region, moments(at_ms, NOW_MS))
    return combine(cells, delta, at_ms, np.array(plain, np.bool_))


def sums(rows: list[Event], deltas: list[int] | None = None) -> Counter[tuple[int, ...]]:
    """What is added to and taken from each cell."""
    found: Counter[tuple[int, ...]] = Counter()
    for number, (counter, region, at_ms, delta, _) in enumerate(rows):
        amount = delta if deltas is None else deltas[number]
        found[counter, region, at_ms // 60_000, amount > 0] += amount
    return found


@thorough
@given(st.lists(ROW, min_size=1, max_size=60))
def test_sums_of_cells_are_kept(rows: list[Event]) -> None:
    result = combined(rows)

    packed = [rows[source] for source in result.source.tolist()]
    assert sums(packed, result.delta.tolist()) == sums(rows)
    assert all(0 < abs(delta) <= 2**40 for delta in result.delta.tolist())


@thorough
@given(st.lists(ROW, min_size=1, max_size=60))
def test_each_row_went_into_a_row_of_its_cell_and_sign(rows: list[Event]) -> None:
    result = combined(rows)

    for number, row in enumerate(rows):
        into = int(result.row_of[number])
        made_of = rows[int(result.source[into])]
        assert (*made_of[:2], made_of[2] // 60_000) == (*row[:2], row[2] // 60_000)
        assert (result.delta[into] > 0) == (row[3] > 0)
        if not row[4]:
            assert (int(result.source[into]), int(result.delta[into])) == (number, row[3])


@thorough
@given(st.lists(ROW, min_size=1, max_size=60))
def test_rows_that_are_not_plain_keep_their_order(rows: list[Event]) -> None:
    result = combined(rows)

    kept = [source for source in result.source.tolist() if not rows[source][4]]
    assert kept == [number for number, row in enumerate(rows) if not row[4]]


@thorough
@given(st.lists(ROW, min_size=1, max_size=60))
def test_a_combined_row_is_as_new_as_the_newest_in_it(rows: list[Event]) -> None:
    result = combined(rows)

    newest: dict[int, int] = {}
    for into, row in zip(result.row_of.tolist(), rows, strict=True):
        newest[into] = max(newest.get(into, row[2]), row[2])
    assert result.at_ms.tolist() == [newest[into] for into in range(len(newest))]


def test_plain_rows_of_one_cell_become_one() -> None:
    result = combined([(7, 0, NOW_MS + second, 1, True) for second in range(1000)])

    assert result.delta.tolist() == [1000]


def test_a_sum_beyond_the_limit_stays_apart() -> None:
    result = combined([(0, 0, 0, 2**40, True), (0, 0, 0, 1, True), (1, 0, 0, 1, True)])

    assert sorted(result.delta.tolist()) == [1, 1, 2**40]


def test_many_counters_over_long_times_are_told_apart() -> None:
    """Far more cells than rows: they cannot be numbered densely."""
    rng = np.random.default_rng(7)
    rows = [
        (int(counter), int(region), int(at_ms), 1, True)
        for counter, region, at_ms in zip(
            rng.integers(0, 100_000, 2_000),
            rng.integers(0, 100, 2_000),
            rng.integers(0, 4_294_967_295_999, 2_000),
            strict=True,
        )
    ]
    rows += rows[:500]

    result = combined(rows)

    packed = [rows[source] for source in result.source.tolist()]
    assert sums(packed, result.delta.tolist()) == sums(rows)
    assert len(packed) == 2_000


def test_what_did_not_happen_just_now_combines_only_at_one_moment() -> None:
    """It may be too late or too early, which is judged by the millisecond."""
    long_ago = NOW_MS - 86_400_000
    result = combined([(0, 0, long_ago + part, 1, True) for part in (0, 0, 1)])

    assert sorted(result.delta.tolist()) == [1, 2]
    assert sorted(long_ago + part for part in (0, 1)) == sorted(
        long_ago + (0, 0, 1)[source] for source in result.source.tolist()
    )
