"""Puts back registers of members. They merge by max, and every grain is written by itself.

So nothing is rolled up here. Registers whose grain and day are gone are left out: a window with a
part of its members only would tell something wrong, and nobody would drop it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from pipeline.letters.insert import GONE, refused_still

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from pipeline.letters.insert import RowTable
    from pipeline.letters.rows import RegisterTable, SetAsideRegisters


class RegisterDay(NamedTuple):
    """What of a table goes together when its retention is over."""

    table: RegisterTable
    family: str
    slot_day: date

    @property
    def kept_under(self) -> date:
        """The first day of the partition: of days, a month is kept together."""
        days = self.table == "tally.distinct_1d"
        return self.slot_day.replace(day=1) if days else self.slot_day


class KeptDays(Protocol):
    """What knows which days are gone."""

    def gone(self, days: Collection[RegisterDay]) -> Collection[RegisterDay]: ...


class RegisterRows:
    """A PutsBack for rows of one table of registers."""

    def __init__(self, table: RowTable, kept: KeptDays) -> None:
        self._table = table
        self._kept = kept

    def put_back(self, rows: Sequence[SetAsideRegisters]) -> dict[int, str]:
        """As the protocol says."""
        days = [RegisterDay(row.table, row.family, row.slot_day) for row in rows]
        gone = self._kept.gone(set(days))
        left = {at: GONE for at, day in enumerate(days) if day in gone}
        chosen = [at for at in range(len(rows)) if at not in left]
        return left | refused_still(self._table, rows, chosen)
