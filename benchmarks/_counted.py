"""What ClickHouse has counted, asked with plain SQL and compared with the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import clickhouse_connect

from benchmarks._kit import Outcome, WrongAnswerError
from tests.kit.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeAlias

    Windows: TypeAlias = Mapping[tuple[str, int], int]

POLL_S = 0.2


class Counted:
    """Asks one ClickHouse."""

    def __init__(self, url: str) -> None:
        self._client = clickhouse_connect.get_client(dsn=url)

    def through(self) -> dict[int, int]:
        """The last offset of each shard whose counts can be read."""
        query = "SELECT shard, max(flushed_through) FROM tally.positions GROUP BY shard"
        return dict(self._rows(query))

    def is_past(self, ends: Sequence[int]) -> bool:
        """Whether everything before these offsets, by partition, is counted."""
        through = self.through()
        return all(through.get(shard, -1) >= end - 1 for shard, end in enumerate(ends))

    def wait(self, ends: Sequence[int], timeout_s: float) -> None:
        """Block until everything before these offsets is counted; raises AssertionError."""
        wait_until(
            lambda: self.is_past(ends), "everything is counted", timeout_s=timeout_s, poll_s=POLL_S
        )

    def check(self, windows: Windows, duplicates: int = 0) -> None:
        """Raises WrongAnswerError unless every minute and every total is as given.

        `windows` are the counts by counter and the minute's start in seconds.
        """
        found = "SELECT counter, toUnixTimestamp(window), toInt64(count) FROM tally.counts_1m"
        minutes = {(name, window): count for name, window, count in self._rows(found)}
        Outcome(0, 0, minutes, windows).check("minutes")
        totals: dict[str, int] = {}
        for (counter, _), count in windows.items():
            totals[counter] = totals.get(counter, 0) + count
        net: dict[str, int] = dict(self._rows("SELECT counter, toInt64(net) FROM tally.totals"))
        Outcome(0, 0, net, totals).check("totals")
        for what, query, expected in (
            ("duplicates", _DUPLICATES, duplicates),
            ("dead letters", "SELECT count() FROM tally.dead_letters", 0),
        ):
            [(number,)] = self._rows(query)
            if number != expected:
                raise WrongAnswerError(f"{number} {what} instead of {expected}")

    def freshness_ms(self, since_ms: int, until_ms: int) -> tuple[float, float]:
        """Of heartbeats that were flushed in that time: their p50 and p99 in ms."""
        [(p50, p99)] = self._rows(
            "SELECT quantileExact(0.5)(freshness_ms), quantileExact(0.99)(freshness_ms) "
            f"FROM tally.freshness WHERE at >= fromUnixTimestamp64Milli({since_ms:d}) "
            f"AND at < fromUnixTimestamp64Milli({until_ms:d})"
        )
        return p50, p99

    def close(self) -> None:
        self._client.close()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._client.query(query).result_rows]


_DUPLICATES = (
    "SELECT toInt64(sum(d)) FROM (SELECT max(duplicates) AS d FROM tally.cells_1m "
    "GROUP BY build, counter, region, window, slot, replica, shard)"
)
