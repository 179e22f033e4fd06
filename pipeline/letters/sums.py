# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""What ClickHouse adds minutes up to: as it was rolled up, and as finer rows make it now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError
from pipeline.letters.rows import RowId, SumKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clickhouse_connect.driver import Client

    from pipeline.letters.rows import Grain, SummedRow, Values

GRAINS: tuple[Grain, ...] = ("life", "1d", "1h")
"""Coarse ones first. Sums only grow, so what is read later of finer rows is no less, unless they
are gone."""

_FINER = {"life": "1d", "1d": "1h", "1h": "1m"}
_WINDOW = {
    "life": "toDateTime(0, 'UTC')",
    "1d": "toStartOfDay(window)",
    "1h": "toStartOfHour(window)",
}


@dataclass(frozen=True, slots=True)
class Summed:
    """What is added up: its tables and views, without the grain, and their columns.

    `of` has those that tell what is counted, with their types.
    """

    table: str
    view: str
    of: Mapping[str, str]
    values: tuple[str, ...]


CELLS_SUMMED = Summed("cells_", "merged_", {"counter": "String"}, ("p", "n", "duplicates"))
BUCKETS_SUMMED = Summed(
    "frequency_",
    "merged_frequency_",
    {"family": "String", "width": "UInt32", "bucket": "UInt32"},
    ("p", "n"),
)


@dataclass(frozen=True, slots=True)
class Sums:
    """`rolled` is what the table of a grain has, `added` what finer rows add up to.

    `minutes` has the minutes themselves, at least those that were asked for, as `added` has them.
    """

    rolled: Mapping[Grain, Mapping[SumKey, Values]]
    added: Mapping[Grain, Mapping[SumKey, Values]]
    minutes: Mapping[RowId, Values]


class SumTables:
    """The sums of one build. Methods block, and raise TryAgainError when ClickHouse is away."""

    def __init__(self, client: Client, build: int, summed: Summed) -> None:
        self._client = client
        self._build = build
        self._summed = summed

    def read(self, rows: Sequence[SummedRow]) -> Sums:
        """The sums that these rows belong in, of all grains.

        Minutes come last, with the rows themselves in one statement: whatever was read before
        holds no more of these rows than is told of them.
        """
        rolled = {grain: self._keyed(self._rolled(grain), grain, rows) for grain in GRAINS}
        added = {grain: self._keyed(self._added(grain), grain, rows) for grain in GRAINS[:-1]}
        hours: dict[SumKey, Values] = {}
        minutes: dict[RowId, Values] = {}
        for *row, found in self._rows(self._added("1h", self._minutes()), "1h", rows):
            key, values = self._key(row)
            hours[key] = values
            minutes.update(
                (RowId(*key[:4], window_s, slot_s), tuple(known))
                for window_s, slot_s, *known in found
            )
        return Sums(rolled, {**added, "1h": hours}, minutes)

    def write(self, grain: Grain, sums: Mapping[SumKey, Values]) -> None:
        """Write absolute sums, of which the table keeps the greatest."""
        months = grain == "life"
        rows = [
            [
                *(self._build, *key.of, key.region, key.replica, key.shard, key.slot_day),
                *([] if months else [datetime.fromtimestamp(key.window_s, UTC)]),
                *values,
            ]
            for key, values in sums.items()
        ]
        names = ["build", *self._summed.of, "region", "replica", "shard"]
        names += ["slot_month"] if months else ["slot_day", "window"]
        try:
            self._client.insert(
                f"tally.{self._summed.table}{grain}",
                rows,
                column_names=[*names, *self._summed.values],
                settings={"async_insert": 0, "max_partitions_per_insert_block": 0},
            )
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(
                f"ClickHouse did not take sums of {grain}: {error}; run it again, which counts "
                "nothing twice"
            ) from error

    def _keyed(self, query: str, grain: Grain, rows: Sequence[SummedRow]) -> dict[SumKey, Values]:
        return dict(map(self._key, self._rows(query, grain, rows)))

    def _key(self, row: Sequence[Any]) -> tuple[SumKey, Values]:
        of = len(self._summed.of)
        key = SumKey(tuple(row[:of]), *row[of : of + 5])
        return key, tuple(map(int, row[of + 5 :]))

    def _rows(self, query: str, grain: Grain, rows: Sequence[SummedRow]) -> Sequence[Sequence[Any]]:
        keys = {row.sum_key(grain) for row in rows}
        parameters = {
            "build": self._build,
            "windows": sorted({key.window_s for key in keys}),
            "days": sorted({key.slot_day for key in keys}),
            "minutes": sorted({row.id.window_s for row in rows}),
            "slots": sorted({row.id.slot_s for row in rows}),
            **{
                f"of_{name}": sorted({key.of[at] for key in keys})
                for at, name in enumerate(self._summed.of)
            },
        }
        try:
            return self._client.query(query, parameters).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not answer a query: {error}") from error

    def _rolled(self, grain: Grain) -> str:
        table = f"{self._summed.table}{grain}"
        greatest = ", ".join(f"max({table}.{name})" for name in self._summed.values)
        life = grain == "life"
        window, day = (_WINDOW["life"], "slot_month") if life else ("window", "slot_day")
        return self._select(window, day, greatest, table)

    def _added(self, grain: Grain, more: str = "") -> str:
        day = "toStartOfMonth(slot_day)" if grain == "life" else "slot_day"
        sums = ", ".join(f"sum({name})" for name in self._summed.values)
        view = f"{self._summed.view}{_FINER[grain]}"
        return self._select(_WINDOW[grain], day, sums + more, view)

    def _minutes(self) -> str:
        values = ", ".join(self._summed.values)
        return (
            f", groupArrayIf((toUnixTimestamp(window), toUnixTimestamp(slot), {values}), "
            "toUnixTimestamp(window) IN {minutes:Array(UInt32)} "
            "AND toUnixTimestamp(slot) IN {slots:Array(UInt32)})"
        )

    def _select(self, window: str, day: str, values: str, table: str) -> str:
        named = ", ".join(
            f"toString({name})" if kind == "String" else name
            for name, kind in self._summed.of.items()
        )
        chosen = " AND ".join(
            f"{name} IN {{of_{name}:Array({kind})}}" for name, kind in self._summed.of.items()
        )
        return (
            f"SELECT {named}, toString(region), toString(replica), shard, "
            f"toUnixTimestamp({window}) AS at, {day} AS day, {values} FROM tally.{table} "
            f"WHERE build = {{build:UInt32}} AND {chosen} "
            "AND at IN {windows:Array(UInt32)} AND day IN {days:Array(Date)} "
            f"GROUP BY {', '.join(self._summed.of)}, region, replica, shard, at, day"
        )
