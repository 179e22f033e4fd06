"""What ClickHouse knows of two builds before their rows are compared. Blocks; see `Asking`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.builds.comparing.kept import Kept, gone, gone_of
from pipeline.builds.comparing.reach import Position, reach, shards_compared
from pipeline.builds.comparing.sql import FIRST_DAY, over_slot
from pipeline.builds.comparing.tables import PARTITIONED
from pipeline.control.kept import parse_retention
from pipeline.errors import TryAgainError
from pipeline.placing import slot_of
from schemas.families import Families

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clickhouse_connect.driver import Client

    from pipeline.builds.comparing.compared import ShardCompared
    from pipeline.builds.comparing.kept import Gone
    from pipeline.builds.comparing.reach import Pair, Positions, Reach
    from pipeline.rollup.retention import Grain

_POSITIONS = (
    "SELECT toString(replica), shard, max(flushed_through), "
    "toUnixTimestamp64Milli(max(log_time)), max(checkpoint_through) FROM tally.positions "
    "WHERE build = {build:UInt32} GROUP BY replica, shard"
)
_CELLS_THROUGH = (
    "SELECT toString(replica), shard, max(through) FROM tally.cells_1m "
    "WHERE build = {build:UInt32} AND slot >= toDateTime({since_s:UInt32}, 'UTC') "
    "GROUP BY replica, shard"
)
_ROLLED = (
    "SELECT toString(replica), shard, toUnixTimestamp64Milli(max(log_time)) "
    "FROM tally.rolled_shards WHERE build = {build:UInt32} GROUP BY replica, shard"
)
_FINAL = "SELECT DISTINCT grain, slot_day FROM tally.final_days WHERE build = {build:UInt32}"
_DELETED = (
    "SELECT DISTINCT grain, slot_day, families FROM tally.expired_days WHERE build = {build:UInt32}"
)
_RETENTIONS = "SELECT DISTINCT document FROM tally.retention"
_PARTS = (
    "SELECT table, partition, sum(rows) FROM system.parts WHERE database = 'tally' AND active "
    "AND has({tables:Array(String)}, table) GROUP BY table, partition"
)
_MONTHS = (
    "SELECT slot_month FROM tally.{table} WHERE build IN ({{old:UInt32}}, {{new:UInt32}}) "
    "UNION DISTINCT SELECT slot_day FROM tally.final_days "
    "WHERE grain = 'life' AND build IN ({{old:UInt32}}, {{new:UInt32}})"
)
_PARTITION = re.compile(r"\(?([0-9]+)(?:,'([0-9]{4}-[0-9]{2}-[0-9]{2})'\))?")
_DAY_S = 86_400
_GRAINS: tuple[Grain, ...] = ("1m", "1h", "1d")


@dataclass(frozen=True, slots=True)
class State:
    """How far the builds are, up to where they are compared, and what may be gone from them."""

    positions: tuple[Positions, Positions]
    reach: Reach
    gone: Gone
    folded: Mapping[date, frozenset[int]]

    def alike(self, unit: date) -> tuple[object, ...]:
        """What days or months that are asked for together have in common."""
        return (
            *(gone_of(self.gone, grain, unit) for grain in _GRAINS),
            self.reach.is_rolled(unit),
            self.folded.get(unit),
        )


class Asking:
    """Questions about two builds to one ClickHouse. They block, and raise TryAgainError when it
    does not answer."""

    def __init__(self, client: Client, old: int, new: int) -> None:
        self._client = client
        self._builds = (old, new)

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """The rows of a query; parameters that it does not refer to are left out."""
        # Where none is bound, the client would take `%` for a place to put one.
        bound = {name: value for name, value in (parameters or {}).items() if f"{{{name}:" in query}
        try:
            found = self._client.query(query, bound)
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not compare the builds: {error}") from error
        return list(found.result_rows)

    def reached(self) -> tuple[Positions, Positions]:
        """How far both builds say that they are."""
        old, new = (self._positions(build) for build in self._builds)
        return old, new

    def positions(self) -> tuple[Positions, Positions]:
        """The same, with how far the cells of their open slots are."""
        return self._with_cells(*self.reached())

    def state(self) -> State:
        """What holds now. Raises OperatorError for a retention that this Tally does not know."""
        old, new = self.positions()
        rolled = [self._rolled(build) for build in self._builds]
        kept = [
            self._kept(build, positions)
            for build, positions in zip(self._builds, (old, new), strict=True)
        ]
        documents = [parse_retention(document) for (document,) in self.rows(_RETENTIONS)]
        folded: dict[date, frozenset[int]] = {}
        for build, its in zip(self._builds, kept, strict=True):
            for month in (day for finished, day in its.final if finished == "life"):
                folded[month] = folded.get(month, frozenset()) | {build}
        return State(
            positions=(old, new),
            reach=reach(old, new, *rolled),
            gone=gone(kept, documents or [Families()]),
            folded=folded,
        )

    def present(self) -> dict[str, dict[date, int]]:
        """How many rows tables have of the builds, by day or month. Of lifetime totals all months
        are told that one of the builds has, or should have."""
        found: dict[str, dict[date, int]] = {table: {} for table in PARTITIONED}
        for table, partition, rows in self.rows(_PARTS, {"tables": list(PARTITIONED)}):
            match = _PARTITION.fullmatch(partition)
            if match is None or int(match[1]) not in self._builds:
                continue
            unit = date.fromisoformat(match[2]) if match[2] else FIRST_DAY
            found[table][unit] = found[table].get(unit, 0) + int(rows)
        old, new = self._builds
        for table in ("cells_life", "frequency_life"):
            rows = found[table].get(FIRST_DAY, 0)
            months = self.rows(_MONTHS.format(table=table), {"old": old, "new": new})
            found[table] = dict.fromkeys((month for (month,) in months), rows)
        return found

    def shards(self, state: State) -> list[ShardCompared]:
        """How far every shard is compared."""
        least_s = min(state.reach.until_ms.values(), default=0) // 1000
        replicas = {
            f"replica_{number}": name
            for number, name in enumerate(sorted({name for name, _ in state.reach.until_ms}))
        }
        cells = self.rows(
            "SELECT toString(replica), shard, max(through) FROM tally.cells_1m "  # noqa: S608 - see compare_sql
            f"WHERE build = {self._builds[0]} AND slot >= toDateTime({max(least_s - _DAY_S, 0)}, "
            f"'UTC') AND {over_slot(state.reach)} GROUP BY replica, shard",
            replicas,
        )
        through = {(replica, int(shard)): int(last) for replica, shard, last in cells}
        return shards_compared(self._builds, *state.positions, state.reach, through)

    def _positions(self, build: int) -> dict[Pair, Position]:
        return {
            (replica, int(shard)): Position(int(through), int(log_ms), int(checkpoint))
            for replica, shard, through, log_ms, checkpoint in self.rows(
                _POSITIONS, {"build": build}
            )
        }

    def _with_cells(
        self, old: Mapping[Pair, Position], new: Mapping[Pair, Position]
    ) -> tuple[Positions, Positions]:
        """Where builds are equally far: up to where their open cells are."""
        alike = [pair for pair in old if pair in new and old[pair].through == new[pair].through]
        found = (dict(old), dict(new))
        if not alike:
            return found
        since_s = min(slot_of(one[pair].log_ms) for pair in alike for one in (old, new)) // 1000
        for build, positions in zip(self._builds, found, strict=True):
            asked = {"build": build, "since_s": since_s}
            for replica, shard, through in self.rows(_CELLS_THROUGH, asked):
                pair = (replica, int(shard))
                if pair in positions:
                    positions[pair] = replace(positions[pair], cells_through=int(through))
        return found

    def _rolled(self, build: int) -> dict[Pair, int]:
        rows = self.rows(_ROLLED, {"build": build})
        return {(replica, int(shard)): int(at_ms) for replica, shard, at_ms in rows}

    def _kept(self, build: int, positions: Positions) -> Kept:
        asked = {"build": build}
        return Kept(
            least_ms=_least_ms(positions),
            final=frozenset((grain, day) for grain, day in self.rows(_FINAL, asked)),
            deleted=frozenset(
                (grain, day, text) for grain, day, text in self.rows(_DELETED, asked)
            ),
        )


def _least_ms(positions: Positions) -> int:
    """The log time that all shards passed; of each the furthest incarnation, others have ended."""
    reached_ms: dict[int, int] = {}
    for (_, shard), position in positions.items():
        reached_ms[shard] = max(position.log_ms, reached_ms.get(shard, 0))
    return min(reached_ms.values(), default=0)
