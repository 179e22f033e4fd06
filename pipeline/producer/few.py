"""Few increments as JSON, one message for each. Pure.

A frame of one row costs a hundred times as much to make as a line of JSON, and has ten times the
bytes; from some dozens of rows on it is the other way round.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.producer.packing import Frame, Load, Packed
from pipeline.sharding import counter_partition, id_partition
from schemas.events import DELTA_DEFAULT, REGION_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.planning.plan import Plan

FEW_ROWS = 32


class Row(NamedTuple):
    """One checked increment, in the order of FRAME_SCHEMA."""

    counter: str
    delta: int
    at: int
    member: str | None
    region: str
    id: str | None


def pack_few(rows: Sequence[Row], plan: Plan) -> Packed | None:
    """One message for each row, in their order; None if a counter among them is split, since what
    spreads its increments is asked for whole columns."""
    met_by = [_met_by(row, plan) for row in rows]
    free = [row.counter for row, met in zip(rows, met_by, strict=True) if met is None]
    if any(plan.shards_of(counter) > 1 for counter in free):
        return None
    frames = [
        Frame(_partition(row, met, plan), _line(row), 1, 1, is_line=True)
        for row, met in zip(rows, met_by, strict=True)
    ]
    load = Counter(free)
    return Packed(
        frames,
        np.arange(len(rows)),
        Load(pa.array(load, pa.string()), np.fromiter(load.values(), np.int64, len(load))),
    )


def _met_by(row: Row, plan: Plan) -> str | None:
    """By what all rows of its kind meet in one partition: its member or its id, if they must."""
    if row.member is not None and plan.rules is not None and plan.rules.has_once_per_member:
        [once] = plan.once_per_member([row.counter])
        if once:
            return row.member
    return row.id


def _partition(row: Row, met_by: str | None, plan: Plan) -> int:
    if met_by is None:
        return counter_partition(row.counter, 0, plan.partitions)
    return id_partition(row.counter, met_by, plan.id_partitions)


def _line(row: Row) -> bytes:
    """Fields that have their default are left out, but never `at`: it is when it happened."""
    event: dict[str, str | int] = {"counter": row.counter, "at": row.at}
    if row.delta != DELTA_DEFAULT:
        event["delta"] = row.delta
    if row.member is not None:
        event["member"] = row.member
    if row.region != REGION_DEFAULT:
        event["region"] = row.region
    if row.id is not None:
        event["id"] = row.id
    return msgspec.json.encode(event)
