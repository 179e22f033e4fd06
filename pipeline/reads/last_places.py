"""Where in the log the last records are that counters have in ClickHouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.producer.receipts import Places
from pipeline.reads import live

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.reads.reads import Reads

# By incarnation first: the clock of who counted the log before may have been ahead.
_NEWEST = (
    "SELECT shard, argMax(replica, (toUInt32OrZero(splitByChar('~', toString(replica))[2]), "  # noqa: S608 - a constant
    f"flushed_at)) FROM tally.positions WHERE {live.OWN} GROUP BY shard"
)

_QUERY = (
    "SELECT counter, shard, max(place) FROM ("  # noqa: S608 - constants
    "SELECT counter, shard, max(cells_1m.through) AS place FROM tally.cells_1m "
    f"WHERE {live.OWN} AND counter IN {{counters:Array(String)}} "
    # Offsets of a log that was lost say nothing of the one that came after it.
    f"AND (shard, replica) IN ({_NEWEST}) GROUP BY counter, shard "
    # Nor do those of its adjustments: further on than a shard was counted, none is older than that.
    "UNION ALL SELECT counter, shard, max(own.offset) AS place FROM tally.adjustments AS own "
    "LEFT JOIN (SELECT shard, max(flushed_through) AS reached, max(log_time) AS newest "
    f"FROM tally.positions FINAL WHERE (shard, replica) IN ({_NEWEST}) "
    f"AND {live.OWN} GROUP BY shard) AS counted USING shard "
    f"WHERE {live.OWN} AND counter IN {{counters:Array(String)}} "
    "AND (own.offset <= counted.reached OR own.log_time >= counted.newest) "
    "GROUP BY counter, shard"
    ") GROUP BY counter, shard"
)


def last_places(reads: Reads, counters: Sequence[str]) -> dict[str, Places]:
    """By counter, the last offset in each shard that any of its cells or adjustments holds.

    Read after sums, these are at least the places of all that the sums hold: cells are written
    before the position row that tells of them, so a sum may be ahead of every position. Blocks;
    raises TryAgainError.
    """
    found = {counter: Places() for counter in counters}
    for counter, shard, place in reads.rows(_QUERY, {"counters": list(counters)}):
        found[str(counter)].add([(int(shard), int(place))])
    return found


def united(places: Iterable[Places]) -> Places:
    """The last of all of them, shard by shard. Pure."""
    every = Places()
    for one in places:
        every.add(one.items())
    return every
