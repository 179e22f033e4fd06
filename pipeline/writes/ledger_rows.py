"""Entries of ledgers as rows of their table. Pure."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.ledger import Entry
from pipeline.slots import incarnate
from pipeline.writes.cell_rows import timestamps_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.shard import ShardSnapshot

NUMBERS = tuple(one.name for one in fields(Entry))


def ledger_rows(snapshots: Sequence[ShardSnapshot], build: int, replica: str) -> pa.Table:
    """What the snapshots hold of ledgers to flush."""
    entries = [entry for snapshot in snapshots for entry in snapshot.ledger]
    owners = [snapshot for snapshot in snapshots for _ in snapshot.ledger]
    columns = np.array(entries, np.int64).reshape(-1, 1 + len(NUMBERS)).T.copy()
    return pa.table(
        {
            "build": pa.array(np.full(len(entries), build, np.uint32)),
            "replica": pa.array([incarnate(replica, one.incarnation) for one in owners]),
            "shard": pa.array([one.shard.partition for one in owners], pa.uint32()),
            "slot": timestamps_s(columns[0] // 1000),
            **dict(zip(NUMBERS, columns[1:], strict=True)),
        }
    )
