"""Values of strict counters, as their deciders flushed them last."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.reads.as_of import COMPLETE_WITHIN_MS, oldest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.reads.as_of import AsOf
    from pipeline.reads.reads import Reads

NO_WINDOWS = "a strict counter has one value: no windows, no regions, no times"


class StrictValue(NamedTuple):
    """A counter's value and as of when it is."""

    value: int
    as_of: AsOf


def read_strict(reads: Reads, counters: Sequence[str]) -> dict[str, StrictValue]:
    """The value of each; 0 for one that nobody ever asked. Blocks; raises TryAgainError.

    When partitions were flushed is read before the values, so these hold at least that much.
    """
    flushed = {
        int(shard): int(at_ms)
        for shard, at_ms in reads.rows(
            "SELECT shard, toUnixTimestamp64Milli(max(flushed_at)) FROM tally.strict_flushes "
            "GROUP BY shard"
        )
    }
    rows = reads.rows(
        "SELECT counter, argMax((strict_values.value, strict_values.shard), through) AS newest "
        "FROM tally.strict_values WHERE counter IN {counters:Array(String)} GROUP BY counter",
        {"counters": list(counters)},
    )
    known = {str(counter): (int(value), int(shard)) for counter, (value, shard) in rows}
    everywhere = [flushed.get(shard) for shard in range(max(flushed, default=-1) + 1)]
    found = {}
    for counter in counters:
        value, shard = known.get(counter, (0, None))
        # Of one without a row it is not known here which partition would have it.
        moments = everywhere if shard is None else [flushed.get(shard)]
        found[counter] = StrictValue(value, oldest(moments, reads.now_ms(), COMPLETE_WITHIN_MS))
    return found
