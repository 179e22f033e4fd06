"""Writes cells and positions to ClickHouse: absolute values, merged there by max.

Writing the same thing twice, or something older after something newer, changes nothing. So a write
whose answer was lost is simply written again.

ClickHouse may be away (TryAgainError: ask again), or refuse a block. If it refuses some rows only,
they are found and set aside, so that all others go on; if it refuses everything, that is an outage.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.errors import OperatorError
from pipeline.metrics.definitions import worker as metric
from pipeline.metrics.meter import UNMEASURED
from pipeline.slots import incarnate
from pipeline.writes.cell_rows import cell_rows
from pipeline.writes.inserter import Inserter
from pipeline.writes.ledger_rows import ledger_rows
from pipeline.writes.set_aside import SetAside
from pipeline.writes.summary_rows import summary_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pipeline.checkpoint import Freshness, Position
    from pipeline.dead_letters import DeadLetter
    from pipeline.metrics.meter import Meter
    from pipeline.shard import ShardSnapshot
    from schemas.addresses import ClickHouseAddress

log = logging.getLogger(__name__)

CELLS = "tally.cells_1m"
LEDGER = "tally.slots"


class ClickHouseSink:
    """One ClickHouse as the cells of one build and replica see it.

    A Sink: its methods return when ClickHouse has confirmed; call one at a time. They raise
    TryAgainError when ClickHouse is away, OperatorError when it refuses to take anything.
    """

    def __init__(
        self, address: ClickHouseAddress, build: int, replica: str, meter: Meter = UNMEASURED
    ) -> None:
        self._build = build
        self._replica = replica
        self._meter = meter
        self._inserter = Inserter(address, meter)
        self._set_aside = SetAside()

    def watch(self, on_progress: Callable[[], None]) -> None:
        """Call `on_progress` between the inserts of one write; what it raises ends the write."""
        self._inserter.on_progress = on_progress

    async def write_cells(self, snapshots: Sequence[ShardSnapshot]) -> list[DeadLetter]:
        """Insert what the snapshots hold to flush; returns the cells that were refused."""
        columns = cell_rows(snapshots, self._build, self._replica)
        others, aside = self._set_aside.split(columns)
        refused = await self._inserter.insert_taken(CELLS, others)
        if await self._inserter.takes(CELLS, aside):
            self._set_aside.forget(aside)
            aside = aside.slice(0, 0)
        if refused:
            log.warning(
                "ClickHouse refuses cells: %d are set aside as dead letters, the first because %s",
                len(refused),
                next(iter(refused.values())),
            )
        new = self._set_aside.add(others, refused)
        return self._measured(self._set_aside.letters(pa.concat_tables([aside, new])))

    async def write_summaries(self, snapshots: Sequence[ShardSnapshot]) -> list[DeadLetter]:
        """Insert what is kept beside cells; returns what was refused."""
        letters: list[DeadLetter] = []
        for found in summary_rows(snapshots, self._build, self._replica):
            refused = await self._inserter.insert_taken(found.table, found.rows)
            letters += found.letters(refused)
        entries = ledger_rows(snapshots, self._build, self._replica)
        for reason in (await self._inserter.insert_taken(LEDGER, entries)).values():
            log.warning("ClickHouse refuses an entry of the ledger: %s", reason)
        if letters:
            log.warning("ClickHouse refuses rows of sketches: %d are dead letters", len(letters))
        return self._measured(letters)

    async def write_positions(self, positions: Sequence[Position]) -> None:
        """Insert one row per shard; call it after the cells it speaks of are confirmed."""
        if not positions:
            return
        columns = {
            "build": pa.array([self._build] * len(positions), pa.uint32()),
            "replica": pa.array([incarnate(self._replica, row.incarnation) for row in positions]),
            "shard": pa.array([row.shard for row in positions], pa.uint32()),
            "flushed_through": pa.array([row.flushed_through for row in positions], pa.int64()),
            "log_time": _timestamps_ms([row.log_ms for row in positions]),
            "flushed_at": _timestamps_ms([row.flushed_at_ms for row in positions]),
            "checkpoint_through": pa.array(
                [row.checkpoint_through for row in positions], pa.int64()
            ),
            "checkpointed_at": _timestamps_ms([row.checkpointed_at_ms for row in positions]),
            "rules_version": pa.array([row.rules_version for row in positions], pa.uint64()),
        }
        await self._inserter.insert("tally.positions", pa.table(columns))

    async def write_freshness(self, samples: Sequence[Freshness]) -> None:
        """Insert one row per heartbeat. That it is refused stops nothing: it is not a count."""
        if not samples:
            return
        columns = {
            "build": pa.array([self._build] * len(samples), pa.uint32()),
            "shard": pa.array([row.shard for row in samples], pa.uint32()),
            "at": _timestamps_ms([row.at_ms for row in samples]),
            "freshness_ms": pa.array([row.freshness_ms for row in samples], pa.uint32()),
        }
        try:
            await self._inserter.insert("tally.freshness", pa.table(columns))
        except OperatorError as error:
            log.warning("how fresh counts are cannot be told: %s", error)
        for row in samples:
            self._meter.observe(metric.FRESHNESS(), row.freshness_ms / 1000)

    async def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Insert one row per dead letter; a repeated one is the same row."""
        if not letters:
            return
        columns = {
            "build": pa.array([self._build] * len(letters), pa.uint32()),
            "shard": pa.array([letter.partition for letter in letters], pa.uint32()),
            "offset": pa.array([letter.offset for letter in letters], pa.int64()),
            "row": pa.array([letter.row for letter in letters], pa.int32()),
            "log_time": _timestamps_ms([letter.timestamp_ms for letter in letters]),
            "reason": pa.array([letter.reason for letter in letters]),
            "bytes": pa.array([letter.bytes_total for letter in letters], pa.uint64()),
            "sample": pa.array([letter.sample() for letter in letters]),
        }
        for reason in (
            await self._inserter.insert_taken("tally.dead_letters", pa.table(columns))
        ).values():
            log.warning("a dead letter is in its topic, but not in ClickHouse: %s", reason)

    async def write_refusal(self, shard: int, reason: str, refused_at_ms: int) -> None:
        """Tell why a shard is not counted on, for `tally status`."""
        columns = {
            "build": pa.array([self._build], pa.uint32()),
            "shard": pa.array([shard], pa.uint32()),
            "refused_at": _timestamps_ms([refused_at_ms]),
            "reason": pa.array([reason]),
        }
        await self._inserter.insert("tally.refusals", pa.table(columns))

    def close(self) -> None:
        """Let go of the connection. Never raises."""
        self._inserter.close()

    def _measured(self, letters: list[DeadLetter]) -> list[DeadLetter]:
        if letters:
            self._meter.add(metric.DEAD_LETTERS(kind="clickhouse"), len(letters))
        return letters


def _timestamps_ms(milliseconds: list[int]) -> pa.Array:
    return pa.array(milliseconds, pa.int64()).cast(pa.timestamp("ms", "UTC"))
