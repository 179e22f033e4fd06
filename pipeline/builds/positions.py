"""How far builds are, shard by shard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError
from pipeline.slots import incarnation_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clickhouse_connect.driver import Client

# Of each incarnation by itself: a log that was made anew has the same offsets again.
_POSITIONS = (
    "SELECT shard, toString(replica), max(flushed_through), toUnixTimestamp64Milli(max(log_time)) "
    "FROM tally.positions WHERE build = {build:UInt32} GROUP BY shard, replica"
)

# A flush writes cells before their position row. Cells of slots that were over long before the
# position are behind it.
_CELLS = (
    "SELECT shard, toString(replica), max(through) FROM tally.cells_1m "
    "WHERE build = {build:UInt32} AND slot >= toDateTime({since:UInt32}, 'UTC') "
    "GROUP BY shard, replica"
)
_LOOK_BACK_S = 120


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a build is in a shard: the last offset that is flushed, and log time there.

    `other_log_ms` is the last log time that was counted in a log which is gone; 0 if none is.
    """

    through: int
    log_ms: int
    incarnation: int = 0
    other_log_ms: int = 0


def reached(client: Client, build: int, *, with_cells: bool = False) -> dict[int, Reached]:
    """By shard, for those that were ever flushed. Blocks; raises TryAgainError.

    `with_cells` also looks for cells whose position row is not written yet.
    """
    try:
        rows = client.query(_POSITIONS, {"build": build}).result_rows
        found = _newest(rows)
        if not with_cells or not found:
            return found
        since = max(0, min(one.log_ms for one in found.values()) // 1000 - _LOOK_BACK_S)
        cells = client.query(_CELLS, {"build": build, "since": since}).result_rows
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not tell how far build {build} is: {error}") from error
    for shard, replica, through in cells:
        known = found.get(int(shard))
        if known is not None and incarnation_of(replica) == known.incarnation:
            found[int(shard)] = replace(known, through=max(known.through, int(through)))
    return found


def _newest(rows: Iterable[Sequence[Any]]) -> dict[int, Reached]:
    """Of every shard its newest incarnation, and the last log time of those before it. Pure."""
    found: dict[int, Reached] = {}
    for shard, replica, through, log_ms in sorted(rows, key=lambda row: incarnation_of(row[1])):
        before = found.get(int(shard))
        other_log_ms = max(before.other_log_ms, before.log_ms) if before else 0
        found[int(shard)] = Reached(
            int(through), int(log_ms), incarnation_of(replica), other_log_ms
        )
    return found
