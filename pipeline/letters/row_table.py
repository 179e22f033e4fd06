"""Inserts rows that were set aside into their table, without those it refuses still."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.writes.halving import BlockRefusedError, may_be_rows
from pipeline.writes.inserter import Inserter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.letters.rows import SetAsideRow
    from schemas.addresses import ClickHouseAddress

_MOMENT = pa.timestamp("s", "UTC")
_PRECISE_MOMENT = pa.timestamp("ms", "UTC")
_TYPES = {
    **dict.fromkeys(("build", "shard", "width", "bucket"), pa.uint32()),
    **dict.fromkeys(("counter", "family", "region", "replica"), pa.string()),
    **dict.fromkeys(("id", "grain", "who", "why"), pa.string()),
    **dict.fromkeys(("window", "slot"), _MOMENT),
    **dict.fromkeys(("at", "log_time"), _PRECISE_MOMENT),
    **dict.fromkeys(("p", "n", "duplicates", "through", "lost"), pa.int64()),
    **dict.fromkeys(("by", "before", "after", "offset"), pa.int64()),
    "precision": pa.uint8(),
    "slot_day": pa.date32(),
    "registers": pa.map_(pa.uint16(), pa.uint8()),
    "counters": pa.list_(pa.string()),
    "counts": pa.list_(pa.int64()),
}
"""A column has the same type in every table that has it."""


class ClickHouseRowTable:
    """A RowTable. Blocks; raises TryAgainError when ClickHouse is away.

    All rows may be refused, since all of them were before. OperatorError is raised only when
    ClickHouse says that it is not about rows.
    """

    def __init__(self, address: ClickHouseAddress) -> None:
        self._inserter = Inserter(address)

    def insert(self, rows: Sequence[SetAsideRow]) -> dict[int, str]:
        """As the protocol says."""
        columns = {
            name: pa.array([getattr(row, name) for row in rows], _TYPES[name])
            for name in rows[0].__struct_fields__
            if name in _TYPES
        }
        return asyncio.run(self._insert(rows[0].table, pa.table(columns), 0))

    async def _insert(self, table: str, rows: pa.Table, start: int) -> dict[int, str]:
        """Halve a refused block until the refused rows stand alone."""
        try:
            await self._inserter.insert(table, rows)
        except BlockRefusedError as error:
            if not may_be_rows(error, rows.num_rows):
                raise
            if rows.num_rows == 1:
                return {start: error.reason}
            middle = rows.num_rows // 2
            first = await self._insert(table, rows.slice(0, middle), start)
            return first | await self._insert(table, rows.slice(middle), start + middle)
        return {}

    def close(self) -> None:
        """Let go of the connection. Never raises."""
        self._inserter.close()
