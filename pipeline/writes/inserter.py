"""Inserts rows into ClickHouse: in blocks it can take in time, without the rows it refuses."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from pipeline.clickhouse import NOW_MS, connect
from pipeline.errors import TryAgainError
from pipeline.metrics.definitions import worker as metric
from pipeline.metrics.meter import UNMEASURED
from pipeline.writes.halving import BlockRefusedError, Halving, may_be_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pyarrow as pa
    from clickhouse_connect.driver import Client

    from pipeline.metrics.meter import Meter
    from schemas.addresses import ClickHouseAddress

BLOCK_ROWS_MAX = 200_000
BLOCK_ROWS_MIN = 10_000
"""How many rows are sent at once: fewer after each failure, lest a block that takes longer than the
time-out be sent again and again; more after each write that went well."""

# Confirmed means stored; and a log that is caught up after a long time has cells of many days. A
# block holds each cell once, so looking for what could be merged within it is a third of the work
# for nothing.
_SETTINGS = {"async_insert": 0, "max_partitions_per_insert_block": 0, "optimize_on_insert": 0}


class Inserter:
    """One connection. Its methods return when ClickHouse has confirmed; call one at a time.

    They raise TryAgainError when ClickHouse is away, OperatorError when it refuses. After each
    insert of a write `on_progress` is called; what it raises ends the write.
    """

    def __init__(self, address: ClickHouseAddress, meter: Meter = UNMEASURED) -> None:
        self._meter = meter
        self.on_progress: Callable[[], None] = lambda: None
        self._address = address
        self._client: Client | None = None
        self._block_rows = BLOCK_ROWS_MAX
        self._taken: dict[str, pa.Table] = {}

    async def insert(self, table: str, rows: pa.Table) -> None:
        """Insert all rows as one block, or raise."""
        try:
            await asyncio.to_thread(self._insert, table, rows)
        except BlockRefusedError:
            self._meter.add(metric.INSERTS(outcome="refused"))
            self.on_progress()
            raise
        except TryAgainError:
            self._meter.add(metric.INSERTS(outcome="failed"))
            raise
        self._meter.add(metric.INSERTS(outcome="stored"))
        self._meter.add(metric.INSERTED_ROWS(), rows.num_rows)
        self.on_progress()

    async def insert_taken(self, table: str, rows: pa.Table) -> dict[int, str]:
        """Insert the rows that ClickHouse takes. Returns the places of the others, with reasons."""
        insert = partial(self.insert, table)
        refused: dict[int, str] = {}
        start = 0
        try:
            while start < rows.num_rows:
                block = rows.slice(start, self._block_rows)
                try:
                    await insert(block)
                    self._taken[table] = block.take([0])
                except BlockRefusedError as error:
                    if not may_be_rows(error, block.num_rows):
                        raise
                    halving = Halving(block, insert, self._taken.get(table), self._elsewhere())
                    found = await halving.run(error)
                    if halving.taken is not None:
                        self._taken[table] = halving.taken
                    refused.update({start + row: reason for row, reason in found.items()})
                start += block.num_rows
        except TryAgainError:
            self._block_rows = max(self._block_rows // 2, BLOCK_ROWS_MIN)
            raise
        # Only now: growing within a write that fails at a certain size would never get to its end.
        self._block_rows = min(self._block_rows * 2, BLOCK_ROWS_MAX)
        return refused

    def _elsewhere(self) -> Callable[[], Awaitable[None]] | None:
        """Writes once more what ClickHouse took last; None if it has taken nothing yet."""
        if not self._taken:
            return None
        table, row = next(reversed(self._taken.items()))
        return partial(self.insert, table, row)

    async def takes(self, table: str, rows: pa.Table) -> bool:
        """Insert all rows as one block; False if ClickHouse refuses it because of its rows."""
        try:
            if rows.num_rows:
                await self.insert(table, rows)
        except BlockRefusedError as error:
            if not may_be_rows(error, rows.num_rows):
                raise
            return False
        return True

    async def now_ms(self) -> int:
        """The time by ClickHouse's own clock, which all who write there share."""
        return await asyncio.to_thread(self._now_ms)

    def close(self) -> None:
        """Let go of the connection. Never raises."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _insert(self, table: str, rows: pa.Table) -> None:
        try:
            self._connected().insert_arrow(table, rows, settings=_SETTINGS)
        except (ClickHouseError, OSError) as error:
            code = error.code if isinstance(error, DatabaseError) else None
            if code is not None:  # The server answered, and said no.
                raise BlockRefusedError(table, " ".join(str(error).split()), code) from error
            raise self._unanswered(error) from error

    def _now_ms(self) -> int:
        try:
            return int(str(self._connected().command(NOW_MS)))
        except (ClickHouseError, OSError) as error:
            raise self._unanswered(error) from error

    def _connected(self) -> Client:
        if self._client is None:
            self._client = connect(self._address)
        return self._client

    def _unanswered(self, error: Exception) -> TryAgainError:
        """Whoever tries again does so on another connection."""
        self.close()
        return TryAgainError(f"ClickHouse at {self._address} does not answer: {error}")
