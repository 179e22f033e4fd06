# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""What ClickHouse adds minutes up to: as it was rolled up, and as finer cells make it now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError
from pipeline.letters.cell import CellId, SumKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clickhouse_connect.driver import Client

    from pipeline.letters.cell import Grain, SetAsideCell, Values

GRAINS: tuple[Grain, ...] = ("life", "1d", "1h")
"""Coarse ones first. Sums only grow, so what is read later of finer cells is no less, unless they
are gone."""

_FINER = {"life": "merged_1d", "1d": "merged_1h", "1h": "merged_1m"}
_WINDOW = {
    "life": "toDateTime(0, 'UTC')",
    "1d": "toStartOfDay(window)",
    "1h": "toStartOfHour(window)",
}
_KEY = (
    "counter, toString(region), toString(replica), shard, "
    "toUnixTimestamp({window}) AS at, {day} AS day"
)
_WHERE = (
    "build = {build:UInt32} AND counter IN {counters:Array(String)} "
    "AND at IN {windows:Array(UInt32)} AND day IN {days:Array(Date)} "
    "GROUP BY counter, region, replica, shard, at, day"
)
_VALUES = ("p", "n", "duplicates")
_MINUTES = (
    ", groupArrayIf((toUnixTimestamp(window), toUnixTimestamp(slot), p, n, duplicates), "
    "toUnixTimestamp(window) IN {minutes:Array(UInt32)} "
    "AND toUnixTimestamp(slot) IN {slots:Array(UInt32)})"
)


@dataclass(frozen=True, slots=True)
class Sums:
    """`rolled` is what the table of a grain has, `added` what finer cells add up to.

    `cells` has the minutes themselves, at least those that were asked for, as `added` has them.
    """

    rolled: Mapping[Grain, Mapping[SumKey, Values]]
    added: Mapping[Grain, Mapping[SumKey, Values]]
    cells: Mapping[CellId, Values]


class SumTables:
    """The sums of one build. Methods block, and raise TryAgainError when ClickHouse is away."""

    def __init__(self, client: Client, build: int) -> None:
        self._client = client
        self._build = build

    def read(self, cells: Sequence[SetAsideCell]) -> Sums:
        """The sums that these cells belong in, of all grains.

        Minutes come last, with the cells themselves in one statement: whatever was read before
        holds no more of these cells than is told of them.
        """
        rolled = {grain: self._keyed(_rolled(grain), grain, cells) for grain in GRAINS}
        added = {grain: self._keyed(_added(grain), grain, cells) for grain in GRAINS[:-1]}
        hours: dict[SumKey, Values] = {}
        minutes: dict[CellId, Values] = {}
        for *row, found in self._rows(_added("1h", _MINUTES), "1h", cells):
            key, values = _keyed(row)
            hours[key] = values
            minutes.update(
                (CellId(*key[:4], window_s, slot_s), (p, n, duplicates))
                for window_s, slot_s, p, n, duplicates in found
            )
        return Sums(rolled, {**added, "1h": hours}, minutes)

    def write(self, grain: Grain, sums: Mapping[SumKey, Values]) -> None:
        """Write absolute sums, of which the table keeps the greatest."""
        months = grain == "life"
        rows = [
            [
                *(self._build, key.counter, key.region, key.replica, key.shard, key.slot_day),
                *([] if months else [datetime.fromtimestamp(key.window_s, UTC)]),
                *values,
            ]
            for key, values in sums.items()
        ]
        names = ["build", "counter", "region", "replica", "shard"]
        names += ["slot_month"] if months else ["slot_day", "window"]
        try:
            self._client.insert(
                f"tally.cells_{grain}",
                rows,
                column_names=[*names, *_VALUES],
                settings={"async_insert": 0, "max_partitions_per_insert_block": 0},
            )
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(
                f"ClickHouse did not take sums of {grain}: {error}; run it again, which counts "
                "nothing twice"
            ) from error

    def _keyed(
        self, query: str, grain: Grain, cells: Sequence[SetAsideCell]
    ) -> dict[SumKey, Values]:
        return dict(map(_keyed, self._rows(query, grain, cells)))

    def _rows(
        self, query: str, grain: Grain, cells: Sequence[SetAsideCell]
    ) -> Sequence[Sequence[Any]]:
        keys = {cell.sum_key(grain) for cell in cells}
        parameters = {
            "build": self._build,
            "counters": sorted({key.counter for key in keys}),
            "windows": sorted({key.window_s for key in keys}),
            "days": sorted({key.slot_day for key in keys}),
            "minutes": sorted({cell.id.window_s for cell in cells}),
            "slots": sorted({cell.id.slot_s for cell in cells}),
        }
        try:
            return self._client.query(query, parameters).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not answer a query: {error}") from error


def _keyed(row: Sequence[Any]) -> tuple[SumKey, Values]:
    key, values = row[:6], row[6:]
    return SumKey(*key), (int(values[0]), int(values[1]), int(values[2]))


def _rolled(grain: Grain) -> str:
    table = f"cells_{grain}"
    greatest = ", ".join(f"max({table}.{name})" for name in _VALUES)
    life = grain == "life"
    key = _KEY.format(
        window=_WINDOW["life"] if life else "window", day="slot_month" if life else "slot_day"
    )
    return f"SELECT {key}, {greatest} FROM tally.{table} WHERE {_WHERE}"


def _added(grain: Grain, more: str = "") -> str:
    day = "toStartOfMonth(slot_day)" if grain == "life" else "slot_day"
    key = _KEY.format(window=_WINDOW[grain], day=day)
    sums = ", ".join(f"sum({name})" for name in _VALUES)
    return f"SELECT {key}, {sums}{more} FROM tally.{_FINER[grain]} WHERE {_WHERE}"
