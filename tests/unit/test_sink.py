"""What the sink makes of snapshots, and what it tells of its address."""

import pytest

from pipeline.cells import CellKey
from pipeline.shard import Shard
from pipeline.writes.cell_rows import cell_rows
from schemas.addresses import without_secrets
from tests.kit.cells import cell_values

SLOT = 1_760_000_400_000


def shard(partition: int, *cells: tuple[str, str, int, int]) -> Shard:
    made = Shard(partition)
    for counter, region, p, n in cells:
        key = CellKey(counter, region, SLOT - 60_000).text()
        made.restore(SLOT, cell_values(key, p, n, 7))
    return made


def test_the_cells_of_all_shards_make_one_block_with_absolute_values() -> None:
    shards = [
        shard(0, ("likes:a", "eu", 3, 1)),
        shard(1),
        shard(5, ("likes:a", "", 2, 0), ("likes:b", "", 9, 9)),
    ]
    block = cell_rows([s.snapshot(checkpoint=False) for s in shards], 4, "main").to_pylist()
    assert [
        (row["build"], row["shard"], row["counter"], row["region"], row["p"], row["n"])
        for row in block
    ] == [
        (4, 0, "likes:a", "eu", 3, 1),
        (4, 5, "likes:a", "", 2, 0),
        (4, 5, "likes:b", "", 9, 9),
    ]
    assert {row["slot"].timestamp() * 1000 for row in block} == {SLOT}
    assert {row["window"].timestamp() * 1000 for row in block} == {SLOT - 60_000}
    assert {(row["replica"], row["through"]) for row in block} == {("main", 7)}


def test_nothing_dirty_is_an_empty_block() -> None:
    assert cell_rows([shard(0).snapshot(checkpoint=False)], 1, "main").num_rows == 0
    assert cell_rows([], 1, "main").num_rows == 0


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:18123", "http://127.0.0.1:18123"),
        ("https://tally:s3cret@ch.example:8443/x", "https://ch.example:8443/x"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
