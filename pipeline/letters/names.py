# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""The names of the heaviest counters in hours and days, rolled up as the leader does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError
from pipeline.letters.heaviest import NamesHour
from pipeline.rollup.sketch_sql import HEAVY_NAMES_MAX

if TYPE_CHECKING:
    from collections.abc import Collection

    from clickhouse_connect.driver import Client

_DAY_S = 86_400

# What was rolled up, and what it was rolled up from, by its start; of days, hours and minutes.
_DAYS = ("heavy_1d", "window", "days")
_HOURS_OF_DAYS = ("heavy_1h", "toStartOfDay(window)", "days")
_HOURS = ("heavy_1h", "window", "hours")
_MINUTES_OF_HOURS = ("heavy_1m", "toStartOfHour(slot)", "hours")

_ONE = "build = {build:UInt32} AND family = {family:String} AND region = {region:String}"


def _roll_up(table: str, source: str) -> str:
    return (
        f"INSERT INTO tally.{table} (build, family, region, window, counter, weight) "
        "SELECT {build:UInt32}, {family:String}, {region:String}, "
        "toDateTime({start_s:UInt32}, 'UTC'), counter, sum(known) AS added "
        f"FROM ({source}) GROUP BY counter ORDER BY added DESC, counter LIMIT {HEAVY_NAMES_MAX}"
    )


_ROLL_HOUR = _roll_up(
    "heavy_1h",
    "SELECT one.1 AS counter, one.2::Int128 AS known FROM ("
    "SELECT argMax(arrayZip(counters, counts), through) AS newest FROM tally.heavy_1m "
    f"WHERE {_ONE} AND toStartOfHour(slot) = toDateTime({{start_s:UInt32}}, 'UTC') "
    "GROUP BY slot, replica, shard) ARRAY JOIN newest AS one",
)
_ROLL_DAY = _roll_up(
    "heavy_1d",
    "SELECT counter, max(heavy_1h.weight) AS known FROM tally.heavy_1h "
    f"WHERE {_ONE} AND toStartOfDay(window) = toDateTime({{start_s:UInt32}}, 'UTC') "
    "GROUP BY window, counter",
)


class NameTables:
    """The names of one build. Methods block, and raise TryAgainError when ClickHouse is away."""

    def __init__(self, client: Client, build: int) -> None:
        self._client = client
        self._build = build

    def gone(self, hours: Collection[NamesHour]) -> set[NamesHour]:
        """Hours that have names but no minutes, and those of days that have names but no hours.

        The rows of a day and family go together, so a part of an hour is never gone.
        """
        # Coarse ones first: what is rolled up meanwhile is not taken for what is left.
        days, hours_of_days, rolled, minutes = (
            self._there(hours, *source)
            for source in (_DAYS, _HOURS_OF_DAYS, _HOURS, _MINUTES_OF_HOURS)
        )
        return {
            hour
            for hour in hours
            if hour in rolled - minutes or _day_of(hour) in days - hours_of_days
        }

    def roll_up(self, hours: Collection[NamesHour]) -> None:
        """As the protocol says. Weights only grow, as the tables keep the greatest."""
        for hour in sorted(hours):
            self._run(_ROLL_HOUR, hour)
        for day in sorted(set(map(_day_of, hours))):
            self._run(_ROLL_DAY, day)

    def _there(
        self, hours: Collection[NamesHour], table: str, start: str, wanted: str
    ) -> set[NamesHour]:
        asked = {
            "build": self._build,
            "families": sorted({hour.family for hour in hours}),
            "regions": sorted({hour.region for hour in hours}),
            "hours": sorted({hour.hour_s for hour in hours}),
            "days": sorted({_day_of(hour).hour_s for hour in hours}),
        }
        query = (
            f"SELECT DISTINCT toString(family), toString(region), toUnixTimestamp({start}) AS at "
            f"FROM tally.{table} WHERE build = {{build:UInt32}} "
            "AND family IN {families:Array(String)} AND region IN {regions:Array(String)} "
            f"AND at IN {{{wanted}:Array(UInt32)}}"
        )
        try:
            rows = self._client.query(query, asked).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not answer a query: {error}") from error
        return {NamesHour(*row) for row in rows}

    def _run(self, statement: str, part: NamesHour) -> None:
        asked: dict[str, Any] = {
            "build": self._build,
            "family": part.family,
            "region": part.region,
            "start_s": part.hour_s,
        }
        try:
            self._client.command(statement, asked, settings={"async_insert": 0})
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(
                f"ClickHouse did not roll up names of {part.family}: {error}; run it again, which "
                "counts nothing twice"
            ) from error


def _day_of(hour: NamesHour) -> NamesHour:
    return hour._replace(hour_s=hour.hour_s - hour.hour_s % _DAY_S)
