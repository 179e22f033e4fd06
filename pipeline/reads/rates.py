"""How much is counted, of all families together: by minute of log time, and each second now."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.reads import live

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.reads.reads import Reads

MINUTE_MS = 60_000
MINUTES = 60

RATE_OVER_S = 15.0
RATE_OVER_S_MIN = 5.0
"""The rate is that of so long ago until now: flushes come about every second, but not evenly."""

# Rows of one slot merge by max; each shard has the number of its own, and replicas the same.
_COUNTED = (
    "SELECT toUnixTimestamp(slot) AS at, sum(most) FROM ("  # noqa: S608 - constants
    "SELECT shard, slot, max(counted) AS most FROM tally.slots "
    f"WHERE {live.OWN} AND slot >= toDateTime({{since_s:UInt32}}, 'UTC') GROUP BY shard, slot"
    ") GROUP BY at ORDER BY at"
)


def counted_by_minute(reads: Reads) -> dict[int, int]:
    """Increments that were counted in each of the last minutes of log time, by when it begins.

    In milliseconds; the last one is not over. Blocks; raises TryAgainError.
    """
    since_ms = reads.now_ms() - MINUTES * MINUTE_MS
    rows = reads.rows(_COUNTED, {"since_s": since_ms // MINUTE_MS * MINUTE_MS // 1000})
    return {int(at_s) * 1000: int(counted) for at_s, counted in rows}


@dataclass(slots=True)
class RateMeter:
    """Makes a rate of what is seen now and then. Pure."""

    _seen: deque[tuple[float, Mapping[int, int]]] = field(default_factory=deque)

    def look(self, now_s: float, minutes: Mapping[int, int]) -> float | None:
        """How many were counted each second of late; before that is known, in the last minute.

        None where no minute is over either.
        """
        self._seen.append((now_s, dict(minutes)))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= RATE_OVER_S:
            self._seen.popleft()
        then_s, before = self._seen[0]
        if now_s - then_s < RATE_OVER_S_MIN:
            over = sorted(minutes)[-2:-1]
            return minutes[over[0]] * 1000 / MINUTE_MS if over else None
        # Minutes that are no longer looked at were over, and had nothing more to come.
        more = sum(max(0, counted - before.get(at, 0)) for at, counted in minutes.items())
        return more / (now_s - then_s)
