"""Where an increment goes must never change between versions: ids would be counted twice.

Which shard a strategy takes may change, but not whether it is one of the counter's.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.errors import BadInputError
from pipeline.sharding import (
    STRATEGIES,
    Chooser,
    Rows,
    Strategy,
    chooser,
    counter_partition,
    counter_partitions_of,
    hashes_of,
    id_partition,
    id_partitions_of,
)

thorough = settings(max_examples=100, deadline=None, print_blob=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SECOND_MS = 1_000
VIRAL = 77


def rows_of(
    hashes: Sequence[int],
    shards: Sequence[int] | int,
    members: Sequence[str | None] | None = None,
    at_ms: Sequence[int] | None = None,
) -> Rows:
    count = len(hashes)
    return Rows(
        hashes=np.array(hashes, np.int64),
        shards=np.full(count, shards, np.int64),
        members=pa.array(members or [None] * count, pa.string()),
        at_ms=np.array(at_ms or [0] * count, np.int64),
    )


def made(strategy: Strategy, seed: int = 1, loads: Sequence[int] = (0,) * 64) -> Chooser:
    return chooser(strategy, seed=seed, in_flight=lambda: np.array(loads, np.int64))


def chosen(one: Chooser, rows: Rows, partitions: int = 64) -> list[int]:
    shards: list[int] = one.choose(rows, partitions).tolist()
    return shards


def spread(shards: NDArray[np.int64], n: int) -> float:
    """The busiest shard's share as a multiple of an even one."""
    return float(np.bincount(shards, minlength=n).max() * n / len(shards))


@pytest.mark.parametrize(
    ("counter", "shard", "partitions", "expected"),
    [
        ("likes:post-42", 0, 8, 7),
        ("likes:post-42", 1, 8, 0),
        ("likes:post-42", 2, 8, 1),
        ("hashtag:#größe", 0, 64, 15),
        ("a:b", 0, 1, 0),
    ],
)
def test_a_counters_shards_lie_on_pinned_neighbouring_partitions(
    counter: str, shard: int, partitions: int, expected: int
) -> None:
    assert counter_partition(counter, shard, partitions) == expected


@pytest.mark.parametrize(
    ("counter", "id_", "expected"),
    [("likes:post-42", "e-1", 6), ("likes:post-42", "e-2", 4), ("views:home", "e-1", 0)],
)
def test_an_id_has_one_pinned_partition(counter: str, id_: str, expected: int) -> None:
    assert id_partition(counter, id_, 8) == expected


def test_counter_and_id_cannot_be_confused_with_each_other() -> None:
    partitions = 1 << 20
    assert id_partition("a:b", "c", partitions) != id_partition("a:bc", "", partitions)


def test_the_hash_is_the_standard_crc_32() -> None:
    """0xCBF43926 is the check value that every catalogue of CRCs has for `123456789`."""
    column = pa.array(["123456789", "", "likes:post-42", "hashtag:#größe"])
    assert hashes_of(column).tolist() == [0xCBF43926, 0, 3142822631, 279375183]


def test_columns_of_ids_go_to_the_pinned_partitions() -> None:
    counters = pa.array(["likes:post-42", "likes:post-42", "views:home"])
    assert id_partitions_of(counters, pa.array(["e-1", "e-2", "e-1"]), 8).tolist() == [6, 4, 0]


@thorough
@given(st.lists(st.tuples(texts, texts), max_size=30), st.integers(1, 2**31 - 1), st.integers(0, 3))
def test_a_column_of_ids_goes_where_each_of_them_does(
    pairs: list[tuple[str, str]], partitions: int, skipped: int
) -> None:
    counters = pa.array([counter for counter, _ in pairs], pa.string())[skipped:]
    ids = pa.array([id_ for _, id_ in pairs], pa.string())[skipped:]
    found = id_partitions_of(counters, ids, partitions)
    assert found.dtype == np.int64
    assert found.tolist() == [id_partition(*pair, partitions) for pair in pairs[skipped:]]


@thorough
@given(st.lists(st.tuples(texts, st.integers(0, 63)), max_size=30), st.integers(64, 2**31 - 1))
def test_a_column_of_shards_lies_where_each_of_them_does(
    pairs: list[tuple[str, int]], partitions: int
) -> None:
    hashes = hashes_of(pa.array([counter for counter, _ in pairs], pa.string()))
    shards = np.array([shard for _, shard in pairs], np.int64)
    expected = [counter_partition(*pair, partitions) for pair in pairs]
    assert counter_partitions_of(hashes, shards, partitions).tolist() == expected


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInputError) as refused:
        chooser("fastest")  # type: ignore[arg-type]  # as from a settings file
    assert "'fastest'" in str(refused.value)
    assert "use random, member, round-robin, time, least-loaded" in str(refused.value)


def test_the_least_loaded_cannot_be_found_without_knowing_loads() -> None:
    with pytest.raises(ValueError, match="in_flight"):
        chooser("least-loaded")


some_rows = st.integers(1, 64).flatmap(
    lambda partitions: st.tuples(
        st.just(partitions),
        st.lists(
            st.tuples(
                st.integers(0, 2**32 - 1),
                st.integers(1, partitions),
                st.none() | texts,
                st.integers(-(2**40), 2**43),
            ),
            max_size=40,
        ),
    )
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@thorough
@given(some_rows, st.integers(0, 2**32))
def test_a_chosen_shard_is_one_of_the_counters(
    strategy: Strategy, given_rows: tuple[int, list[tuple[int, int, str | None, int]]], seed: int
) -> None:
    partitions, columns = given_rows
    hashes, shards, members, at_ms = zip(*columns, strict=True) if columns else ([], [], [], [])
    one = made(strategy, seed, [0] * partitions)
    for _ in range(2):
        found = one.choose(rows_of(hashes, shards, members, at_ms), partitions)
        assert found.dtype == np.int64
        assert [0 <= shard < n for shard, n in zip(found.tolist(), shards, strict=True)] == [
            True for _ in columns
        ]


@pytest.mark.parametrize(
    ("strategy", "most"),
    [("random", 1.2), ("member", 1.2), ("round-robin", 1.0), ("time", 1.0), ("least-loaded", 1.0)],
)
@pytest.mark.parametrize("n", [2, 16, 64])
def test_a_busy_counter_is_spread_over_all_its_shards(
    strategy: Strategy, most: float, n: int
) -> None:
    """64,000 rows, each of another member; a thousandth of them in each second."""
    count = 64_000
    rows = rows_of(
        [VIRAL] * count,
        n,
        [f"member-{number}" for number in range(count)],
        [number // 1_000 * SECOND_MS for number in range(count)],
    )
    assert 1.0 <= spread(made(strategy).choose(rows, 64), n) <= most


def test_members_have_pinned_shards() -> None:
    members = ["123456789", "ann", "größe", ""]
    rows = rows_of([VIRAL] * 4, [64, 64, 64, 64], members)
    assert chosen(made("member"), rows) == [38, 51, 9, 0]
    other = rows_of([3, 4, 5, 6], [16, 16, 3, 16], members)
    assert chosen(made("member", seed=2), other) == [6, 3, 2, 0]


def test_rows_without_a_member_go_anywhere_and_disturb_nobody() -> None:
    members = ["ann", None] * 8_000
    found = made("member").choose(rows_of([VIRAL] * 16_000, 16, members), 64)
    assert set(found[::2].tolist()) == {3}
    assert spread(found[1::2], 16) < 1.2


def test_the_same_seed_chooses_the_same_at_random() -> None:
    rows = rows_of([VIRAL] * 1_000, 16)
    first = chosen(made("random", seed=5), rows)
    assert first == chosen(made("random", seed=5), rows)
    assert first != chosen(made("random", seed=6), rows)


def test_each_counter_goes_round_by_itself_through_all_batches() -> None:
    """Counters that take turns would otherwise have every other shard only."""
    one, n = made("round-robin"), {5: 4, 6: 8}
    taken: dict[int, list[int]] = {5: [], 6: []}
    for batch in ([5, 6, 5, 6, 5], [6], [5, 5, 6], [], [6, 5, 6, 6, 6], [5] * 9 + [6]) * 3:
        shards = chosen(one, rows_of(batch, [n[counter] for counter in batch]))
        for counter, shard in zip(batch, shards, strict=True):
            taken[counter].append(shard)
    for counter, shards in taken.items():
        assert shards == [(shards[0] + step) % n[counter] for step in range(len(shards))]


def test_producers_begin_to_go_round_at_different_places() -> None:
    rows = rows_of([VIRAL], 64)
    starts = {chosen(made("round-robin", seed), rows)[0] for seed in range(20)}
    assert len(starts) > 10


def test_a_second_is_on_one_shard_and_the_next_second_on_the_next() -> None:
    times = [1_700_000_000_000, 1_700_000_000_999, 1_700_000_001_000, 1_700_000_004_000, -1]
    rows = rows_of([VIRAL, 5, VIRAL, VIRAL, VIRAL], 4, at_ms=times)
    assert chosen(made("time"), rows) == [0, 0, 1, 0, 3]


def test_the_emptiest_partitions_are_filled_first() -> None:
    """Shards 0 to 3 of hash 6 on partitions 6, 7, 0, 1."""
    loads = [40, 0, 9, 9, 9, 9, 10, 25]
    found = chosen(made("least-loaded", loads=loads), rows_of([6] * 30, 4), 8)
    assert np.bincount(found, minlength=4).tolist() == [10, 0, 0, 20]
    assert loads == [40, 0, 9, 9, 9, 9, 10, 25]


@thorough
@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(0, 200))
def test_a_batch_is_filled_as_if_row_by_row(loads: list[int], count: int) -> None:
    expected = list(loads)
    for _ in range(count):
        expected[expected.index(min(expected))] += 1
    n = len(loads)
    found = made("least-loaded", loads=loads).choose(rows_of([0] * count, n), n)
    given_rows = np.bincount(found, minlength=n)
    assert sorted((given_rows + np.array(loads)).tolist()) == sorted(expected)


def test_counters_see_what_others_in_their_batch_were_given() -> None:
    """Both have partitions 0 and 1, so the few rows of one go where the other's do not."""
    rows = rows_of([8] * 3 + [16] * 5, 2)
    places = counter_partitions_of(rows.hashes, made("least-loaded").choose(rows, 8), 8)
    assert np.bincount(places).tolist() == [4, 4]


def test_where_all_are_equal_no_shard_is_preferred() -> None:
    """A log that confirms quickly leaves nothing in flight; single rows must be spread as well."""
    one = made("least-loaded")
    found = np.array([chosen(one, rows_of([VIRAL], 8))[0] for _ in range(800)])
    assert spread(found, 8) < 1.5
