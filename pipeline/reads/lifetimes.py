# ruff: noqa: S608 - what is put into statements are constants of this file and whole numbers.
"""Totals of all time by a short query, for those who ask often.

The views take the greater of rolled up and not, grain by grain, which is right at every moment, and
is long for ClickHouse to plan. Here it is known beforehand where the border is: days
that are final are whole in `cells_1d`, and later ones have all their minutes, since nothing is
dropped before it is final. So each cell is read from one table alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pipeline.reads.sums import Sums
from pipeline.reads.taking import total

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pipeline.reads.reads import Reads
    from pipeline.reads.taking import Values

_BORDER = (
    "SELECT build, clusters, count(day), "
    "toUnixTimestamp(toDateTime(maxIf(day, partitions >= {shards:UInt32}), 'UTC')) "
    "FROM (SELECT anyIf(build, cluster = '') AS build, count() AS clusters "
    "FROM tally.live_builds) AS live LEFT JOIN ("
    "SELECT build, partitions, toNullable(slot_day) AS day FROM tally.final_days "
    "WHERE grain = '1d') AS final USING build GROUP BY build, clusters"
)

_WHERE = "build = {build:UInt32} AND counter IN {counters:Array(String)}"
_KEY = "counter, toString(region) AS region, toString(replica) AS replica, shard"
_VALUES = "p::Int128 AS p, n::Int128 AS n, duplicates::Int128 AS duplicates"
_ROLLED_UP, _SUMMED = 1, 2
_NO_OFFSET = "-1::Int64 AS through"

_CELLS = (
    f"SELECT {_ROLLED_UP} AS part, {_KEY}, slot_month AS month, {_VALUES}, {_NO_OFFSET} "
    f"FROM tally.cells_life FINAL WHERE {_WHERE} UNION ALL "
    f"SELECT {_SUMMED}, {_KEY}, toStartOfMonth(slot_day), {_VALUES}, {_NO_OFFSET} "
    f"FROM tally.cells_1d FINAL WHERE {_WHERE} AND slot_day < {{border:Date}} UNION ALL "
    f"SELECT {_SUMMED}, {_KEY}, toStartOfMonth(toDate(slot)), {_VALUES}, through "
    f"FROM tally.cells_1m FINAL WHERE {_WHERE} AND slot >= toDateTime({{border:Date}}, 'UTC')"
)
_ADJUSTMENTS = (
    "SELECT counter, toString(region), toString(grain), toUnixTimestamp(window), `by`, shard, "
    f"`offset` FROM tally.adjustments WHERE {_WHERE} "
    "ORDER BY counter, id, log_time, shard, `offset` LIMIT 1 BY counter, id"
)


_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Border:
    """Days before `day` of this build are rolled up for good."""

    build: int
    day: date


def read_border(reads: Reads, shards: int) -> Border | None:
    """The border of the live build; None where the short query cannot be used.

    That is after partitions were added, until days are final with them, and where other clusters'
    cells are here, which become final elsewhere. Before a first day is final all are read from
    minutes. Blocks; raises TryAgainError.
    """
    [(build, clusters, finals, newest_s)] = reads.rows(_BORDER, {"shards": shards})
    if clusters != 1 or (finals and not newest_s):
        return None
    if not finals:
        return Border(int(build), _EPOCH)
    newest = datetime.fromtimestamp(int(newest_s), UTC).date()
    return Border(int(build), newest + timedelta(days=1))


def has_adjustments(reads: Reads, border: Border) -> bool:
    """Whether anything of the build was ever adjusted. Blocks; raises TryAgainError."""
    query = "SELECT 1 FROM tally.adjustments WHERE build = {build:UInt32} LIMIT 1"
    return bool(reads.rows(query, {"build": border.build}))


def read_lifetimes(
    reads: Reads,
    border: Border,
    counters: Sequence[str],
    *,
    replicas: Mapping[int, str],
    region: str | None = None,
    everywhere: Collection[str] = (),
    adjusted: bool = True,
) -> dict[tuple[Any, ...], Sums]:
    """As `read_sums` of all time, with the last offsets. Blocks; raises TryAgainError.

    Adjustments are looked for only if there are any, which `adjusted` says. `replicas` are those
    that count each shard now: offsets of a log that was lost say nothing of the one after it.
    """
    parameters: dict[str, Any] = {
        "build": border.build,
        "border": border.day,
        "counters": list(counters),
    }
    where = ""
    if region is not None:
        where = "WHERE region = {region:String} OR counter IN {everywhere:Array(String)} "
        parameters |= {"region": region, "everywhere": list(everywhere)}
    rows = reads.rows(
        "SELECT counter, region, replica, shard, month, sum(p), sum(n), sum(duplicates), "
        f"max(through) FROM ({_CELLS}) {where}"
        "GROUP BY part, counter, region, replica, shard, month",
        parameters,
    )
    found = {(counter,): Sums(latest={}) for counter in counters}
    _add_cells(found, rows, replicas)
    if not adjusted:
        return found
    known = {name: parameters[name] for name in ("build", "counters")}
    for counter, at_region, grain, at_s, by, shard, offset in reads.rows(_ADJUSTMENTS, known):
        if region is None or at_region == region or counter in everywhere:
            sums = found[counter,]
            sums.adjusted.add(grain or None, int(at_s) * 1000, int(by), 1)
            _reach(sums, int(shard), int(offset))
    return found


def _add_cells(
    found: dict[tuple[Any, ...], Sums],
    rows: Sequence[Sequence[Any]],
    replicas: Mapping[int, str],
) -> None:
    """Of each month the greater of its lifetime total and what its days add up to."""
    months: dict[tuple[Any, ...], Values] = {}
    for *key, p, n, duplicates, through in rows:
        known = months.get(tuple(key), (0, 0, 0))
        months[tuple(key)] = (
            max(known[0], int(p)),
            max(known[1], int(n)),
            max(known[2], int(duplicates)),
        )
        counter, _, replica, shard, _ = key
        if replica == replicas.get(shard) and through >= 0:
            _reach(found[counter,], int(shard), int(through))
    for (counter, *_), values in months.items():
        sums = found[counter,]
        sums.life = total([sums.life or (0, 0, 0), values])


def _reach(sums: Sums, shard: int, offset: int) -> None:
    latest = sums.latest
    assert latest is not None
    latest[shard] = max(offset, latest.get(shard, -1))
