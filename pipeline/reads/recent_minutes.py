"""The last minutes of some counters, and how their order changed meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.reads.reads import Reads

MINUTE_S = 60

_MINUTES = (
    "SELECT counter, toUnixTimestamp(window) AS at, sum(count) FROM tally.counts_by_region_1m "
    "WHERE counter IN {counters:Array(String)} "
    "AND window >= toDateTime({since_s:UInt32}, 'UTC') "
    "AND window < toDateTime({until_s:UInt32}, 'UTC') "
    "AND (region = {region:String} OR {everywhere:Bool}) GROUP BY counter, at"
)


def recent_minutes(
    reads: Reads, counters: Sequence[str], minutes: int, region: str | None
) -> dict[str, list[int]]:
    """The counts of each counter in the last so many minutes, the oldest first.

    The last one is the minute that is not over. Zeros where nothing was counted, as for counters
    that have only sketches. Blocks; raises TryAgainError.
    """
    until_s = (reads.now_ms() // 1000 // MINUTE_S + 1) * MINUTE_S
    since_s = until_s - minutes * MINUTE_S
    found = {counter: [0] * minutes for counter in counters}
    if not counters:
        return found
    rows = reads.rows(
        _MINUTES,
        {
            "counters": list(counters),
            "since_s": since_s,
            "until_s": until_s,
            "region": region or "",
            "everywhere": region is None,
        },
    )
    for counter, at_s, count in rows:
        found[counter][(int(at_s) - since_s) // MINUTE_S] = int(count)
    return found


def ranks_before(minutes: Mapping[str, Sequence[int]], ago: int) -> dict[str, int]:
    """Which place each had so many minutes ago, among these, by as long a time before. Pure.

    The minutes are those of now and of `ago` before. Without those who had nothing then.
    """
    counts = {name: sum(values[: len(values) - ago]) for name, values in minutes.items()}
    order = sorted((-count, name) for name, count in counts.items() if count > 0)
    return {name: place for place, (_, name) in enumerate(order, 1)}
