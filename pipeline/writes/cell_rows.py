"""Cells as rows of their table. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.cell_names import joined
from pipeline.slots import incarnate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.cells import Int64Column
    from pipeline.shard import ShardSnapshot


def timestamps_s(seconds: Int64Column) -> pa.Array:
    """Seconds since 1970 as a column of times."""
    return pa.array(seconds).cast(pa.timestamp("s", "UTC"))


def cell_rows(snapshots: Sequence[ShardSnapshot], build: int, replica: str) -> pa.Table:
    """The cells that the snapshots hold to flush."""
    parts = [(snapshot.shard.partition, part) for snapshot in snapshots for part in snapshot.flush]
    cells = joined([part.names() for _, part in parts])
    sizes = [len(part.values.keys) for _, part in parts]
    rows, which = sum(sizes), np.repeat(np.arange(len(parts)), sizes)
    slots_s = np.repeat([part.cells.slot_ms // 1000 for _, part in parts], sizes)
    replicas = [
        incarnate(replica, snapshot.incarnation) for snapshot in snapshots for _ in snapshot.flush
    ]
    none = [np.empty(0, np.int64)]
    return pa.table(
        {
            "build": pa.array(np.full(rows, build, np.uint32)),
            "counter": cells.counters,
            "region": cells.regions,
            "window": timestamps_s(cells.windows_ms // 1000),
            "slot": timestamps_s(slots_s.astype(np.int64)),
            "replica": pa.array(replicas, pa.string()).take(pa.array(which)),
            "shard": pa.array(np.repeat([shard for shard, _ in parts], sizes).astype(np.uint32)),
            "p": np.concatenate([part.values.p for _, part in parts] or none),
            "n": np.concatenate([part.values.n for _, part in parts] or none),
            "duplicates": np.concatenate([part.values.duplicates for _, part in parts] or none),
            "through": np.concatenate([part.values.through for _, part in parts] or none),
        }
    )
