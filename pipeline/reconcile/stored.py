"""What ClickHouse has of a build to compare, and what was found by comparing."""

from __future__ import annotations

from datetime import UTC, date, datetime
from operator import add
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.control.kept import parse_retention
from pipeline.errors import TryAgainError
from pipeline.ledger import Entry
from pipeline.reconcile.compared import CellSums, Flushed, Owner, SlotOf
from pipeline.reconcile.grains import DaySums
from pipeline.writes.ledger_rows import NUMBERS
from schemas.families import Families

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clickhouse_connect.driver import Client

    from pipeline.rollup.retention import Grain

SHARE_ROWS = 4_000_000
"""About so many cells of a day are grouped at once, so that memory and time are bounded."""

_SPAN = (
    "build = {build:UInt32} AND slot >= toDateTime({start_s:UInt32}, 'UTC') "
    "AND slot < toDateTime({end_s:UInt32}, 'UTC')"
)
_SLOT_MS = "toInt64(toUnixTimestamp(slot)) * 1000"
_NUMBERS = ", ".join(f"{'min' if name == 'first' else 'max'}(`{name}`)" for name in NUMBERS)

_POSITIONS = (
    "SELECT replica, shard, max(flushed_through), toUnixTimestamp64Milli(max(log_time)) "
    "FROM tally.positions WHERE build = {build:UInt32} GROUP BY replica, shard"
)
_ENTRIES = (
    f"SELECT replica, shard, {_SLOT_MS}, {_NUMBERS} FROM tally.slots WHERE {_SPAN} "  # noqa: S608 - constants
    "GROUP BY replica, shard, slot"
)
_BEFORE = (
    f"SELECT replica, shard, max(through) FROM tally.slots WHERE {_SPAN} "  # noqa: S608 - constants
    "GROUP BY replica, shard"
)
# Merged as it is read, in the order of the key: grouping by cell would need memory for all of them.
_CELLS = (
    f"SELECT replica, shard, {_SLOT_MS}, sum(toInt128(p)), sum(toInt128(n)), "  # noqa: S608 - constants
    f"sum(toInt128(duplicates)), max(through) FROM tally.cells_1m FINAL WHERE {_SPAN} "
    "GROUP BY replica, shard, slot SETTINGS do_not_merge_across_partitions_select_final = 1"
)
_DAY_SUMS = (
    "SELECT replica, shard, sum(p), sum(n), sum(duplicates) FROM tally.{table} "
    "WHERE build = {{build:UInt32}} AND slot_day = {{day:Date}} "
    "AND cityHash64(counter) % {{parts:UInt32}} = {{part:UInt32}} GROUP BY replica, shard "
    "SETTINGS do_not_merge_across_partitions_select_final = 1"
)
_DAY_ROWS = (
    "SELECT sum(rows) FROM system.parts WHERE database = 'tally' AND table = 'cells_1m' AND active "
    "AND partition = {partition:String}"
)
_ROLLED_UP = (
    "SELECT replica, shard, toUnixTimestamp64Milli(max(log_time)) FROM tally.rolled_shards "
    "WHERE build = {build:UInt32} GROUP BY replica, shard"
)
_RETENTION = (
    "SELECT toUnixTimestamp64Milli(applied_at), document FROM tally.retention "
    "ORDER BY applied_at, document"
)
_COUNTS_FROM = (
    "SELECT toInt64(toUnixTimestamp(max(counts_from))) * 1000 FROM tally.rebuilds "
    "WHERE build = {build:UInt32}"
)
_INCARNATIONS = "SELECT incarnations FROM tally.rebuilds FINAL WHERE build = {build:UInt32}"
_FIRST = (
    "SELECT min(first) FROM ("
    "SELECT toInt64(toUnixTimestamp(min(slot))) * 1000 AS first FROM tally.slots "
    "WHERE build = {build:UInt32} HAVING count() > 0 UNION ALL "
    "SELECT toInt64(toUnixTimestamp(min(slot))) * 1000 AS first FROM tally.cells_1m "
    "WHERE build = {build:UInt32} HAVING count() > 0)"
)
_STANDING = (
    "SELECT shard, slot_day FROM tally.reconciliations "
    "WHERE build = {build:UInt32} AND against = {against:String} "
    "GROUP BY shard, slot_day HAVING argMax(differences, checked_at) > 0"
)
_RESULTS = "tally.reconciliations"
_RESULT = (
    "build",
    "shard",
    "slot_day",
    "against",
    "checked_at",
    "through",
    "differences",
    "example",
)


class Stored:
    """One build in ClickHouse. Methods block, and raise TryAgainError when it is away."""

    def __init__(self, client: Client, build: int) -> None:
        self._client = client
        self._build = build

    def flushed(self) -> dict[Owner, Flushed]:
        """How far every owner is. To be read first: whatever is read later is at least as far."""
        rows = self._rows(_POSITIONS)
        return {
            Owner(str(replica), int(shard)): Flushed(int(through), int(log_ms))
            for replica, shard, through, log_ms in rows
        }

    def entries(self, start_ms: int, end_ms: int) -> dict[SlotOf, Entry]:
        """The ledger of a span of slots. To be read before its cells."""
        return {
            SlotOf(str(replica), int(shard), int(slot_ms)): Entry(*map(int, numbers))
            for replica, shard, slot_ms, *numbers in self._rows(_ENTRIES, _span(start_ms, end_ms))
        }

    def reached(self, start_ms: int, end_ms: int) -> dict[Owner, int]:
        """The last offset that the ledger has in a span of slots."""
        rows = self._rows(_BEFORE, _span(start_ms, end_ms))
        return {Owner(str(replica), int(shard)): int(last) for replica, shard, last in rows}

    def cells(self, start_ms: int, end_ms: int) -> dict[SlotOf, CellSums]:
        """What cells add up to in a span of slots."""
        return {
            SlotOf(str(replica), int(shard), int(slot_ms)): CellSums(*map(int, sums))
            for replica, shard, slot_ms, *sums in self._rows(_CELLS, _span(start_ms, end_ms))
        }

    def rolled_up_ms(self) -> dict[Owner, int]:
        """Up to which log time shards are rolled up for good, under the replica's name alone.

        To be read before what is rolled up.
        """
        rows = self._rows(_ROLLED_UP)
        return {Owner(str(replica), int(shard)): int(at_ms) for replica, shard, at_ms in rows}

    def merged(self, grain: Grain, day: date) -> dict[Owner, DaySums]:
        """What a day of log time adds up to in a grain, as views answer it."""
        partition = f"({self._build},'{day.isoformat()}')"
        [(rows,)] = self._rows(_DAY_ROWS, {"partition": partition})
        return self._day_sums(f"merged_{grain}", day, 1 + int(rows) // SHARE_ROWS)

    def rolled(self, grain: Grain, day: date) -> dict[Owner, DaySums]:
        """What is rolled up of a day of log time in a grain."""
        return self._day_sums(f"cells_{grain} FINAL", day, 1)

    def retention(self) -> list[tuple[int, Families]]:
        """Every retention that held, with the time since which, oldest first.

        Raises OperatorError for one that this Tally does not understand.
        """
        found = [(int(at_ms), parse_retention(text)) for at_ms, text in self._rows(_RETENTION)]
        return found or [(0, Families())]

    def counts_from_ms(self) -> int:
        """From which slot on this build is counted from the log."""
        return int(self._rows(_COUNTS_FROM)[0][0])

    def first_incarnations(self) -> tuple[int, ...]:
        """Under which this build began to count each shard; 0 for those that are not in it."""
        rows = self._rows(_INCARNATIONS)
        return tuple(map(int, rows[0][0])) if rows else ()

    def first_ms(self) -> int:
        """The first slot that the ledger or a cell is of; 0 if there is none."""
        [[first_ms]] = self._rows(_FIRST)
        return int(first_ms or 0)

    def standing(self, against: str) -> set[tuple[int, date]]:
        """Shards and days that differed when they were last looked at."""
        rows = self._rows(_STANDING, {"against": against})
        return {(int(shard), day) for shard, day in rows}

    def store(
        self,
        against: str,
        found: Mapping[tuple[int, date], tuple[int, int, str]],
        checked_at_ms: int,
    ) -> None:
        """Record, by shard and day, through which offset it was compared, and what differs."""
        at = datetime.fromtimestamp(checked_at_ms / 1000, UTC)
        rows = [
            [self._build, shard, day, against, at, *result]
            for (shard, day), result in sorted(found.items())
        ]
        if not rows:
            return
        try:
            self._client.insert(_RESULTS, rows, column_names=_RESULT)
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not take what was compared: {error}") from error

    def _day_sums(self, table: str, day: date, parts: int) -> dict[Owner, DaySums]:
        found: dict[Owner, DaySums] = {}
        for part in range(parts):
            asked = {"day": day, "part": part, "parts": parts}
            for replica, shard, *sums in self._rows(_DAY_SUMS.format(table=table), asked):
                owner = Owner(str(replica), int(shard))
                before = found.get(owner, (0, 0, 0))
                found[owner] = DaySums(*map(add, before, map(int, sums)))
        return found

    def _rows(self, query: str, asked: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        try:
            bound = {"build": self._build, **(asked or {})}
            return self._client.query(query, parameters=bound).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not answer what to compare: {error}") from error


def _span(start_ms: int, end_ms: int) -> dict[str, int]:
    """A span of slots, which begin at whole seconds, as a column can hold it."""
    return {"start_s": start_ms // 1000, "end_s": min(end_ms // 1000, 2**32 - 1)}
