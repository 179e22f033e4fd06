"""Puts back the names of the heaviest counters, and rolls them up to hours and days anew.

Of one shard and slot the row with the greatest `through` holds, so an older one changes nothing.
Weights of hours and days only tell whom to estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from pipeline.letters.insert import GONE, refused_still

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pipeline.letters.insert import RowTable
    from pipeline.letters.rows import SetAsideHeaviest

_HOUR_S = 3600


class NamesHour(NamedTuple):
    """What is rolled up together; the hour is of log time, in seconds since 1970."""

    family: str
    region: str
    hour_s: int


class NamesOfHours(Protocol):
    """Where names are rolled up."""

    def gone(self, hours: Collection[NamesHour]) -> Collection[NamesHour]:
        """Those that were rolled up from rows which are gone, or whose day was."""
        ...

    def roll_up(self, hours: Collection[NamesHour]) -> None:
        """Write these hours and their days anew."""
        ...


class HeaviestRows:
    """A PutsBack for rows of tally.heavy_1m."""

    def __init__(self, table: RowTable, names: NamesOfHours) -> None:
        self._table = table
        self._names = names

    def put_back(self, rows: Sequence[SetAsideHeaviest]) -> dict[int, str]:
        """As the protocol says."""
        hours = [hour_of(row) for row in rows]
        gone = self._names.gone(set(hours))
        left = {at: GONE for at, hour in enumerate(hours) if hour in gone}
        chosen = [at for at in range(len(rows)) if at not in left]
        left |= refused_still(self._table, rows, chosen)
        taken = {hour for at, hour in enumerate(hours) if at not in left}
        if taken:
            self._names.roll_up(taken)
        return left


def hour_of(row: SetAsideHeaviest) -> NamesHour:
    """The hour that a row is rolled up in. Pure."""
    slot_s = int(row.slot.timestamp())
    return NamesHour(row.family, row.region, slot_s - slot_s % _HOUR_S)
