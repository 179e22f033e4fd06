# ruff: noqa: S608 - what is put into statements are constants of this file and whole numbers.
"""Totals of all time by a short query, for those who ask often.

The views take the greater of rolled up and not, grain by grain, which is right at every moment, and
is long for ClickHouse to plan. Here it is known beforehand where the border is: days
that are final are whole in `cells_1d`, and later ones have all their minutes, since nothing is
dropped before it is final. So each cell is read from one table alone, and what is final can be
remembered: then only the minutes since are read.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pipeline.reads.names_sent import NAMES_BYTES_MAX, fitting, sent_bytes
from pipeline.reads.settled import (
    NOTHING,
    Border,
    Owner,
    SettledMonth,
    months_of,
)
from pipeline.reads.sums import Sums
from pipeline.reads.taking import total

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pipeline.reads.reads import FlushedShard, Reads
    from pipeline.reads.settled import Months, Settled
    from pipeline.reads.taking import Values

# Minutes may be missing of days that are final, and of those that another build passed on.
_BORDER = (
    "SELECT build, clusters, "
    "count(day) + (build IN (SELECT build FROM tally.rebuilds WHERE base != 0)), "
    "toUnixTimestamp(toDateTime(maxIf(day, partitions >= {shards:UInt32}), 'UTC')) "
    "FROM (SELECT anyIf(build, cluster = '') AS build, count() AS clusters "
    "FROM tally.live_builds) AS live LEFT JOIN ("
    "SELECT build, partitions, toNullable(slot_day) AS day FROM tally.final_days "
    "WHERE grain = '1d') AS final USING build GROUP BY build, clusters"
)

_WHERE = "build = {build:UInt32} AND counter IN {counters:Array(String)}"
_OWNER = "counter, toString(region) AS region, toString(replica) AS replica, shard"
_VALUES = "sum(p::Int128), sum(n::Int128), sum(duplicates::Int128)"

_SETTLED = (
    f"SELECT 1 AS is_life, {_OWNER}, slot_month AS month, {_VALUES} FROM tally.cells_life FINAL "
    f"WHERE {_WHERE} GROUP BY counter, region, replica, shard, month UNION ALL "
    f"SELECT 0 AS is_life, {_OWNER}, toStartOfMonth(slot_day) AS month, {_VALUES} "
    f"FROM tally.cells_1d FINAL WHERE {_WHERE} AND slot_day < {{border:Date}} "
    "GROUP BY counter, region, replica, shard, month"
)
_MINUTES = (
    f"SELECT counter, region, replica, shard, toStartOfMonth(slot) AS month, {_VALUES}, "
    f"max(through) FROM tally.cells_1m FINAL WHERE {_WHERE} "
    "AND slot >= toDateTime({border:Date}, 'UTC') "
    "GROUP BY counter, region, replica, shard, month"
)
_ADJUSTMENTS = (
    "SELECT counter, toString(region), toString(grain), toUnixTimestamp(window), `by`, shard, "
    f"`offset`, toUnixTimestamp64Milli(log_time) FROM tally.adjustments WHERE {_WHERE} "
    "ORDER BY counter, id, log_time, shard, `offset` LIMIT 1 BY counter, id"
)


_EPOCH = date(1970, 1, 1)

FEW = 8
"""Of so few names the minutes are read by one thread: to share them out costs more."""

TOGETHER_MAX = 200
"""How many names more are asked for where some have to be: those that would have to be soon."""

_ONE_THREAD = {"max_threads": 1}


def read_border(reads: Reads, shards: int) -> Border | None:
    """The border of the live build; None where the short query cannot be used.

    That is after partitions were added, until days are final with them; where other clusters'
    cells are here, which become final elsewhere; and where days were carried over from another
    build while none is known to be final. Otherwise, before a first day is final, all are read
    from minutes. Blocks; raises TryAgainError.
    """
    [(build, clusters, days_without_minutes, newest_s)] = reads.rows(_BORDER, {"shards": shards})
    if clusters != 1 or (days_without_minutes and not newest_s):
        return None
    if not days_without_minutes:
        return Border(int(build), _EPOCH)
    newest = datetime.fromtimestamp(int(newest_s), UTC).date()
    return Border(int(build), newest + timedelta(days=1))


def has_adjustments(reads: Reads, border: Border) -> bool:
    """Whether anything of the build was ever adjusted. Blocks; raises TryAgainError."""
    # Which ClickHouse knows without looking, while most have never adjusted anything.
    [(adjustments,)] = reads.rows("SELECT count() FROM tally.adjustments")
    if not adjustments:
        return False
    query = "SELECT 1 FROM tally.adjustments WHERE build = {build:UInt32} LIMIT 1"
    return bool(reads.rows(query, {"build": border.build}))


def read_lifetimes(
    reads: Reads,
    border: Border,
    counters: Sequence[str],
    *,
    positions: Sequence[FlushedShard],
    region: str | None = None,
    everywhere: Collection[str] = (),
    adjusted: bool = True,
    settled: Settled | None = None,
) -> dict[tuple[Any, ...], Sums]:
    """As `read_sums` of all time, with the last offsets. Blocks; raises TryAgainError.

    Adjustments are looked for only if there are any, which `adjusted` says. `positions` tell who
    counts each shard now: offsets of a log that was lost say nothing of the one after it. What is
    `settled` is not read again.
    """
    shards = {shard.shard: shard for shard in positions}
    known = {"build": border.build, "counters": list(counters)}
    found = {(counter,): Sums(latest={}) for counter in counters}
    months = _read_settled(reads, border, counters, settled)
    recent: dict[str, dict[Owner, Values]] = {counter: {} for counter in counters}
    settings = _ONE_THREAD if len(counters) <= FEW else {}
    for counter, *owner, p, n, duplicates, through in reads.rows(
        _MINUTES, {**known, "border": border.day}, settings
    ):
        at = Owner(*owner)
        recent[counter][at] = (int(p), int(n), int(duplicates))
        is_asked_for = region is None or at.region == region or counter in everywhere
        known_shard = shards.get(at.shard)
        if is_asked_for and known_shard is not None and at.replica == known_shard.replica:
            _reach(found[counter,], at.shard, int(through))
    for counter in counters:
        owners = {*months[counter], *recent[counter]}
        if region is not None and counter not in everywhere:
            owners = {owner for owner in owners if owner.region == region}
        if owners:
            sums = (_month(months[counter], recent[counter], owner) for owner in owners)
            found[counter,].life = total(sums)
    if not adjusted:
        return found
    for counter, at_region, grain, at_s, by, shard, offset, log_ms in reads.rows(
        _ADJUSTMENTS, known
    ):
        if region is None or at_region == region or counter in everywhere:
            own = found[counter,]
            own.adjusted.add(grain or None, int(at_s) * 1000, int(by), 1)
            if _is_of_this_log(shards.get(int(shard)), int(offset), int(log_ms)):
                _reach(own, int(shard), int(offset))
    return found


def _is_of_this_log(shard: FlushedShard | None, offset: int, log_ms: int) -> bool:
    """Whether an offset can be one of the log that is counted now.

    Log time never goes back, so what is further on than a shard was counted is not older.
    """
    return shard is None or offset <= shard.flushed_through or log_ms >= shard.log_ms


def _read_settled(
    reads: Reads, border: Border, counters: Sequence[str], settled: Settled | None
) -> dict[str, Months]:
    """Of these counters at least; what is not remembered is read, and then is."""
    known = {} if settled is None else settled.known(border, counters)
    missing = [counter for counter in counters if counter not in known]
    if not missing:
        return known
    if settled is not None:
        aging = settled.aging(border, TOGETHER_MAX)
        others = (counter for counter in aging if counter not in counters)
        missing += fitting(others, NAMES_BYTES_MAX - sum(map(sent_bytes, missing)))
    asked_s = reads.monotonic_s()
    parameters = {"build": border.build, "border": border.day, "counters": missing}
    rows = (
        (bool(is_life), counter, Owner(*owner), (int(p), int(n), int(duplicates)))
        for is_life, counter, *owner, p, n, duplicates in reads.rows(_SETTLED, parameters)
    )
    found = months_of(missing, rows)
    if settled is not None:
        settled.keep(border, asked_s, found)
    return {**known, **found}


def _month(months: Months, recent: Mapping[Owner, Values], owner: Owner) -> Values:
    """The greater of its lifetime total and what its days and minutes add up to."""
    life, days = months.get(owner, SettledMonth())
    p, n, duplicates = map(max, life, total([days, recent.get(owner, NOTHING)]))
    return p, n, duplicates


def _reach(sums: Sums, shard: int, offset: int) -> None:
    latest = sums.latest
    assert latest is not None
    latest[shard] = max(offset, latest.get(shard, -1))
