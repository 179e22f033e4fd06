"""Where an increment goes must never change between versions: ids would be counted twice."""

import pytest

from pipeline.sharding import counter_partition, id_partition


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
