"""Finds the rows that ClickHouse refuses: a refused block is halved until they stand alone.

One row that a table will not take (a constraint, a view that throws) refuses the whole block it is
in, however often it is sent. Everything else is written on the way. If nothing at all is taken,
or too little, it is not about rows: it is an outage, and no row is blamed for it.

No I/O of its own: it awaits the insert it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pyarrow as pa

ROWS_REFUSED_MAX = 200
"""How many rows of one block may be refused. Beyond it the table is at fault, not the rows."""

_TOO_LARGE = frozenset({241})
"""ClickHouse's code for too little memory: the same rows may pass in smaller blocks."""

_OUTAGE = frozenset(
    {
        *(16, 47, 60, 81, 218),  # no such column, table or database: migrations are missing
        *(159, 160, 202, 209, 210, 394, 425, 439),  # too busy, or cut off in the middle
        216,  # sent again by the client, while what it sent first is still being written
        *(164, 242, 243, 252, 236),  # read-only, no disk, too many parts, shutting down
        *(192, 193, 194, 201, 497, 516),  # this user may not
        *(225, 285, 286, 287, 319, 999),  # replicas and their coordination
    }
)
"""ClickHouse's codes that are never about rows, though they may concern one partition alone."""


class BlockRefusedError(OperatorError):
    """ClickHouse answered, and will not take a block. `code` is ClickHouse's number for why."""

    def __init__(self, table: str, reason: str, code: int) -> None:
        super().__init__(f"ClickHouse refused a block of {table}: {reason}")
        self.table = table
        self.reason = reason
        self.code = code


class Insert(Protocol):
    """Returns when the rows are stored; raises BlockRefusedError when they are refused."""

    async def __call__(self, rows: pa.Table, /) -> None: ...


class Halving:
    """One search in one block, which was refused as a whole.

    `taken` is a row that the table took lately, before the search or in it; writing it once more
    tells whether the table takes anything. Rows are absolute values, so writing one again changes
    nothing. `elsewhere` does the same with a row of another table: where a row stands alone, and
    nothing is known of its own table, that one tells whether ClickHouse takes anything.
    """

    def __init__(
        self,
        block: pa.Table,
        insert: Insert,
        taken: pa.Table | None,
        elsewhere: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._block = block
        self._insert = insert
        self.taken = taken
        self._elsewhere = elsewhere if block.num_rows == 1 else None
        self._refused: dict[int, BlockRefusedError] = {}

    async def run(self, refusal: BlockRefusedError) -> dict[int, str]:
        """Write all rows that are taken. Returns the places of the others, with the reasons.

        Raises OperatorError when ClickHouse refuses everything, or too much to be about rows, and
        whatever else the insert raises. Then rows may be written, and none is to be blamed.
        """
        if self._block.num_rows == 1:
            self._blame(0, refusal)
        else:
            await self._search(refusal)
        if self._refused:
            await self._make_sure()
        return {row: error.reason for row, error in sorted(self._refused.items())}

    async def _search(self, refusal: BlockRefusedError) -> None:
        suspects = [(0, self._block.num_rows, refusal)]
        while suspects:
            start, stop, refusal = suspects.pop()
            middle = (start + stop) // 2
            for part in ((start, middle), (middle, stop)):
                rows = self._block.slice(part[0], part[1] - part[0])
                error = await self._try(rows)
                if error is None:
                    self.taken = rows.slice(0, 1)
                elif rows.num_rows == 1:
                    self._blame(part[0], error)
                else:
                    suspects.append((*part, error))

    async def _make_sure(self) -> None:
        """A table that takes nothing for a moment must not cost a row: ask once more."""
        await self._ask_table()
        for row in list(self._refused):
            if await self._try(self._block.slice(row, 1)) is None:
                del self._refused[row]
        await self._ask_table()

    async def _ask_table(self) -> None:
        error = next(iter(self._refused.values()), None)
        if self.taken is not None:
            error = await self._try(self.taken)
        elif self._elsewhere is not None:
            await self._elsewhere()
            return
        if error is not None:
            raise OperatorError(
                f"ClickHouse takes nothing: {error.reason}; it is asked again until it does, so "
                "mend what it names"
            ) from error

    async def _try(self, rows: pa.Table) -> BlockRefusedError | None:
        try:
            await self._insert(rows)
        except BlockRefusedError as error:
            if not may_be_rows(error, rows.num_rows):
                raise
            return error
        return None

    def _blame(self, row: int, error: BlockRefusedError) -> None:
        if len(self._refused) >= ROWS_REFUSED_MAX:
            raise OperatorError(
                f"ClickHouse refuses more than {ROWS_REFUSED_MAX} rows of one block of "
                f"{error.table}: {error.reason}; it is asked again until it takes them, so mend "
                "what it names"
            ) from error
        self._refused[row] = error


def may_be_rows(error: BlockRefusedError, rows: int) -> bool:
    """Whether halving a block of so many rows may help."""
    return error.code not in _OUTAGE and (rows > 1 or error.code not in _TOO_LARGE)
