# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""Asks ClickHouse which days of registers are gone, since their retention was over."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import date

    from clickhouse_connect.driver import Client

    from pipeline.letters.registers import RegisterDay
    from pipeline.letters.rows import RegisterTable

_GRAIN: dict[RegisterTable, str] = {
    "tally.trend_members": "1m",
    "tally.distinct_1m": "1m",
    "tally.distinct_1h": "1h",
    "tally.distinct_1d": "1d",
}
_DAY = {"1m": "toDate(slot)", "1h": "slot_day", "1d": "toStartOfMonth(slot_day)"}

_WHERE = "build = {build:UInt32} AND day IN {days:Array(Date)}"
_FINAL = (
    f"SELECT DISTINCT slot_day AS day FROM tally.final_days WHERE {_WHERE} "
    "AND grain = {finished:String}"
)
_DELETED = (
    f"SELECT DISTINCT slot_day AS day, families FROM tally.expired_days WHERE {_WHERE} "
    "AND grain = {grain:String}"
)


class ClickHouseKeptDays:
    """The days of one build. Blocks, and raises TryAgainError when ClickHouse is away."""

    def __init__(self, client: Client, build: int) -> None:
        self._client = client
        self._build = build

    def gone(self, days: Collection[RegisterDay]) -> set[RegisterDay]:
        """Those of which rows were deleted, or that are final with nothing left of them."""
        ordered = sorted(days)
        return {
            day
            for table, found in groupby(ordered, attrgetter("table"))
            for day in self._gone(table, list(found))
        }

    def _gone(self, table: RegisterTable, days: Sequence[RegisterDay]) -> Iterator[RegisterDay]:
        grain = _GRAIN[table]
        asked = {
            "build": self._build,
            "days": sorted({day.kept_under for day in days}),
            "families": sorted({day.family for day in days}),
            "grain": grain,
            "finished": "life" if grain == "1d" else "1d",
        }
        # What is there comes last: a day that is dropped meanwhile is told as gone.
        final: set[date] = {day for (day,) in self._rows(_FINAL, asked)}
        deleted = self._rows(_DELETED, asked)
        there = {(family, day) for family, day in self._rows(_there(table, grain), asked)}
        for day in days:
            was_deleted = any(
                at == day.kept_under and is_meant(families, day.family) for at, families in deleted
            )
            nothing_left = (day.family, day.kept_under) not in there
            if was_deleted or (nothing_left and day.kept_under in final):
                yield day

    def _rows(self, query: str, parameters: dict[str, Any]) -> Sequence[Sequence[Any]]:
        try:
            return self._client.query(query, parameters).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not answer a query: {error}") from error


def is_meant(families: str, family: str) -> bool:
    """Whether a set of families, as the rollup has recorded it, has this one in it. Pure."""
    return (repr(family) in families) == families.startswith("only ")


def _there(table: str, grain: str) -> str:
    """Families and days of which there are registers, or cells, which go together with them."""
    month = "toStartOfMonth(slot_day)" if grain == "1d" else "slot_day"
    sources = ((table, month), (f"tally.cells_{grain}", _DAY[grain]))
    return " UNION DISTINCT ".join(
        f"SELECT DISTINCT toString(family), {day} AS day FROM {source} "
        f"WHERE {_WHERE} AND family IN {{families:Array(String)}}"
        for source, day in sources
    )
