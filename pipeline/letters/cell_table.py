"""Inserts cells that were set aside into tally.cells_1m, without those it refuses still."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.writes.halving import BlockRefusedError, may_be_rows
from pipeline.writes.inserter import Inserter
from pipeline.writes.sink import CELLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.letters.cell import SetAsideCell

_MOMENT = pa.timestamp("s", "UTC")
_SCHEMA = pa.schema(
    [
        ("build", pa.uint32()),
        ("counter", pa.string()),
        ("region", pa.string()),
        ("window", _MOMENT),
        ("slot", _MOMENT),
        ("replica", pa.string()),
        ("shard", pa.uint32()),
        *((name, pa.int64()) for name in ("p", "n", "duplicates", "through")),
    ]
)


class ClickHouseCellTable:
    """A CellTable. Blocks; raises TryAgainError when ClickHouse is away.

    All cells may be refused, since all of them were before. OperatorError is raised only when
    ClickHouse says that it is not about rows.
    """

    def __init__(self, url: str) -> None:
        self._inserter = Inserter(url)

    def insert(self, cells: Sequence[SetAsideCell]) -> dict[int, str]:
        """As the protocol says."""
        columns = {name: [getattr(cell, name) for cell in cells] for name in _SCHEMA.names}
        return asyncio.run(self._insert(pa.table(columns, _SCHEMA), 0))

    async def _insert(self, rows: pa.Table, start: int) -> dict[int, str]:
        """Halve a refused block until the refused rows stand alone."""
        try:
            await self._inserter.insert(CELLS, rows)
        except BlockRefusedError as error:
            if not may_be_rows(error, rows.num_rows):
                raise
            if rows.num_rows == 1:
                return {start: error.reason}
            middle = rows.num_rows // 2
            first = await self._insert(rows.slice(0, middle), start)
            return first | await self._insert(rows.slice(middle), start + middle)
        return {}

    def close(self) -> None:
        """Let go of the connection. Never raises."""
        self._inserter.close()
