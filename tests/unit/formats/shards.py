"""Shards out of stored changelogs, and what they have counted."""

import numpy as np

from pipeline.cells import CellKey
from pipeline.recovery import RecoveredShard
from pipeline.shard import Shard
from schemas.records import Records


def recovered(records: list[tuple[bytes, bytes]]) -> RecoveredShard:
    found, size = RecoveredShard(3), len(records)
    keys, values = [key for key, _ in records], [value for _, value in records]
    zeros = np.zeros(size, np.int64)
    found.add(0, size, Records(3, np.arange(size), zeros, [*keys], [*values], [()] * size))
    return found


def counts(shard: Shard) -> dict[tuple[str, str, int], tuple[int, int, int, int]]:
    """p, n, through and duplicates of every cell."""
    found = {}
    for cells in shard.slots.values():
        values = cells.values()
        columns = (values.p, values.n, values.through, values.duplicates)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for key, row in zip(map(CellKey.parse, values.keys), rows, strict=True):
            found[key.counter, key.region, key.window_ms] = row
    return found
