"""Adjustments as rows of their table. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pipeline.shard import ShardSnapshot


def adjustment_rows(snapshot: ShardSnapshot, build: int) -> pa.Table:
    """The adjustments that a snapshot holds to flush."""
    placed = snapshot.adjustments
    made = [one.adjustment for one in placed]
    targets = [one.target for one in made]
    rows = len(placed)
    return pa.table(
        {
            "build": pa.array([build] * rows, pa.uint32()),
            "counter": pa.array([one.counter for one in made], pa.string()),
            "id": pa.array([one.id for one in made], pa.string()),
            "region": pa.array([one.region for one in made], pa.string()),
            "grain": pa.array([grain for grain, _ in targets], pa.string()),
            "window": pa.array([at_ms // 1000 for _, at_ms in targets], pa.int64()).cast(
                pa.timestamp("s", "UTC")
            ),
            "by": pa.array([one.by for one in made], pa.int64()),
            "who": pa.array([one.who for one in made], pa.string()),
            "why": pa.array([one.why for one in made], pa.string()),
            "before": pa.array([one.before for one in made], pa.int64()),
            "after": pa.array([one.after for one in made], pa.int64()),
            "at": _times([one.at for one in made]),
            "log_time": _times([one.log_ms for one in placed]),
            "shard": pa.array([snapshot.shard.partition] * rows, pa.uint32()),
            "offset": pa.array([one.offset for one in placed], pa.int64()),
        }
    )


def _times(milliseconds: list[int]) -> pa.Array:
    return pa.array(milliseconds, pa.int64()).cast(pa.timestamp("ms", "UTC"))
