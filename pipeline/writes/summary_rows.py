"""What is kept beside cells, as rows of its tables: registers, sketches, the heaviest, adjustments.

Pure. All of it is absolute and merges in ClickHouse, so writing it twice changes nothing.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipeline.dead_letters import VALUE_BYTES_MAX, DeadLetter
from pipeline.registers_of import SLOT
from pipeline.slots import SLOT_MS, incarnate
from pipeline.writes.adjustment_rows import adjustment_rows
from pipeline.writes.cell_rows import timestamps_s
from pipeline.writes.set_aside import REASON_CHARACTERS_MAX
from schemas.rules import GRAIN_MS, GRAINS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipeline.cells import Int64Column
    from pipeline.known_registers import Raised
    from pipeline.registers_of import Written
    from pipeline.shard import ShardSnapshot
    from pipeline.sketched import Buckets, Heaviest


_DISTINCT: dict[str, Written] = {
    **{f"tally.distinct_{grain}": grain for grain in GRAINS},
    "tally.trend_members": SLOT,
}
"""The tables of registers, and which of these each takes."""


@dataclass(frozen=True, slots=True)
class SummaryRows:
    """Rows for one table; `origins` tells which of the snapshots each of them is from."""

    table: str
    rows: pa.Table
    snapshots: Sequence[ShardSnapshot]
    origins: Int64Column

    def letters(self, refused: Mapping[int, str]) -> list[DeadLetter]:
        """The rows at these places, which ClickHouse refused, as dead letters."""
        chosen = self.rows.take(pa.array(refused, pa.int64())).to_pylist()
        return [
            self._letter(row, self.snapshots[self.origins[place]], reason)
            for row, (place, reason) in zip(chosen, refused.items(), strict=True)
        ]

    def _letter(self, row: dict[str, Any], snapshot: ShardSnapshot, reason: str) -> DeadLetter:
        value = json.dumps({"table": self.table, **row}, default=_plain, ensure_ascii=False)
        encoded = value.encode()
        place = zlib.crc32(encoded)
        return DeadLetter(
            snapshot.shard.partition,
            snapshot.position - 1,
            -1 - place % 2**31,
            _placed_ms(row),
            f"ClickHouse refused this row of {self.table}: {reason[:REASON_CHARACTERS_MAX]}",
            encoded[:VALUE_BYTES_MAX],
            len(encoded),
        )


def summary_rows(
    snapshots: Sequence[ShardSnapshot], build: int, replica: str
) -> Iterator[SummaryRows]:
    """What the snapshots hold beside cells, for each table that gets any."""
    for table, written in _DISTINCT.items():
        parts = [
            [_distinct(raised, written, build) for raised in snapshot.distinct.raised]
            for snapshot in snapshots
        ]
        yield from _joined(table, parts, snapshots)
    sketches = [
        (snapshot, _Origin(build, replica, snapshot), snapshot.sketches) for snapshot in snapshots
    ]
    buckets = [
        [_buckets(found, part.sketches.slot_ms, origin) for part in parts for found in part.buckets]
        for _, origin, parts in sketches
    ]
    yield from _joined("tally.frequency_1m", buckets, snapshots)
    heaviest = [
        [_heaviest(part.heaviest, part.sketches.slot_ms, origin) for part in parts]
        for _, origin, parts in sketches
    ]
    yield from _joined("tally.heavy_1m", heaviest, snapshots)
    adjusted = [[adjustment_rows(one, build)] if one.adjustments else [] for one in snapshots]
    yield from _joined("tally.adjustments", adjusted, snapshots)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The columns that all rows of a snapshot share."""

    build: int
    replica: str
    snapshot: ShardSnapshot

    def columns(self, rows: int, slot_ms: int) -> dict[str, Any]:
        replica = incarnate(self.replica, self.snapshot.incarnation)
        return {
            "build": pa.array(np.full(rows, self.build, np.uint32)),
            "slot": timestamps_s(np.full(rows, slot_ms // 1000, np.int64)),
            "replica": pa.array([replica] * rows, pa.string()),
            "shard": pa.array(np.full(rows, self.snapshot.shard.partition, np.uint32)),
        }


def _joined(
    table: str, parts: list[list[pa.Table]], snapshots: Sequence[ShardSnapshot]
) -> Iterator[SummaryRows]:
    """One table of the parts, which are given for each snapshot; none if they hold nothing."""
    counts = [sum(part.num_rows for part in found) for found in parts]
    if sum(counts):
        rows = pa.concat_tables(chain.from_iterable(parts))
        yield SummaryRows(table, rows, snapshots, np.repeat(np.arange(len(counts)), counts))


def _distinct(raised: Raised, written: Written, build: int) -> pa.Table:
    maps = pa.MapArray.from_arrays(raised.starts, raised.indexes, raised.ranks)
    of, chosen = raised.of, raised.of.are_for(written)
    if not chosen.all():
        rows = np.flatnonzero(chosen)
        of, maps = of.take(rows), maps.take(pa.array(rows))
    size_ms = SLOT_MS if written == SLOT else GRAIN_MS[written]
    return pa.table(
        {
            "build": pa.array(np.full(len(of), build, np.uint32)),
            "counter": of.counters,
            "region": of.regions,
            "window": timestamps_s((of.windows_ms - of.windows_ms % size_ms) // 1000),
            "precision": pa.array(of.precisions.astype(np.uint8)),
            "slot_day": pa.array(np.full(len(of), of.day, np.int32)).cast(pa.date32()),
            "registers": maps,
        }
    )


def _buckets(found: Buckets, slot_ms: int, origin: _Origin) -> pa.Table:
    rows = len(found.buckets)
    window_s = (found.of.window_ms or 0) // 1000
    return pa.table(
        {
            **origin.columns(rows, slot_ms),
            "family": pa.array([found.of.group] * rows, pa.string()),
            "region": pa.array([found.of.region] * rows, pa.string()),
            "window": timestamps_s(np.full(rows, window_s, np.int64)),
            "width": pa.array(np.full(rows, found.width, np.uint32)),
            "bucket": pa.array(found.buckets.astype(np.uint32)),
            "p": pa.array(found.p),
            "n": pa.array(found.n),
        }
    )


def _heaviest(found: Sequence[Heaviest], slot_ms: int, origin: _Origin) -> pa.Table:
    return pa.table(
        {
            **origin.columns(len(found), slot_ms),
            "family": pa.array([one.of.group for one in found], pa.string()),
            "region": pa.array([one.of.region for one in found], pa.string()),
            "through": pa.array([one.through for one in found], pa.int64()),
            "counters": pa.array([one.counters for one in found], pa.list_(pa.string())),
            "counts": pa.array([one.counts for one in found], pa.list_(pa.int64())),
            "lost": pa.array([one.lost for one in found], pa.int64()),
        }
    )


def _placed_ms(row: Mapping[str, Any]) -> int:
    """The log time that a row belongs to, which may be a day before its flush: a build that is
    given earlier days is given the letters of their rows with them."""
    if "slot_day" in row:
        return int(datetime.combine(row["slot_day"], time(), UTC).timestamp() * 1000)
    placed: datetime = row["slot" if "slot" in row else "log_time"]
    return round(placed.timestamp() * 1000)


def _plain(value: Any) -> Any:
    """A time as ClickHouse writes it itself, with milliseconds where it has any."""
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        return f"{text}.{value.microsecond // 1000:03}" if value.microsecond else text
    return value.isoformat() if isinstance(value, date) else str(value)
