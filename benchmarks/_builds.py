"""What a build of the log has come to, asked of ClickHouse: how far it is, and its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver import Client

    from benchmarks._events import CellName

RUN_TIMEOUT_S = 180
POLL_S = 0.25
"""Asking costs ClickHouse some milliseconds, which would be taken from whoever is measured."""


def wait_for_end(
    client: Client, build: int, ends: Sequence[int], *, timeout_s: float = RUN_TIMEOUT_S
) -> int:
    """When the flush that completed the build was confirmed, in ms by the clock of this machine.

    Rules and heartbeats that workers themselves append lie beyond the ends.
    """
    found: dict[int, tuple[int, int]] = {}

    def is_complete() -> bool:
        found.update(positions(client, build))
        return all(found.get(shard, (0, 0))[0] >= end for shard, end in enumerate(ends))

    wait_until(is_complete, f"build {build} is complete", timeout_s=timeout_s, poll_s=POLL_S)
    return max(at_ms for _, at_ms in found.values())


def positions(client: Client, build: int) -> dict[int, tuple[int, int]]:
    """By shard: the offset after the last that is counted, and when that was confirmed, in ms."""
    rows = client.query(
        "SELECT shard, max(flushed_through) + 1, toUnixTimestamp64Milli(max(flushed_at)) "
        f"FROM tally.positions WHERE build = {build} GROUP BY shard"
    ).result_rows
    return {shard: (position, at_ms) for shard, position, at_ms in rows}


def cells_of(client: Client, build: int) -> dict[CellName, int]:
    """Net counts of a build: views read the declared build alone, so this merges by itself."""
    rows = client.query(
        "SELECT counter, region, toUnixTimestamp(window) * 1000, sum(p) - sum(n) FROM ("
        "SELECT counter, toString(region) AS region, window, max(p) AS p, max(n) AS n "
        f"FROM tally.cells_1m WHERE build = {build} "
        "GROUP BY counter, region, window, slot, replica, shard"
        ") GROUP BY counter, region, window"
    ).result_rows
    return {(counter, region, window_ms): net for counter, region, window_ms, net in rows}


def uniques_of(client: Client, build: int) -> dict[tuple[str, int], float]:
    """About how many members each counter had in each minute of a build, by when it began in ms."""
    rows = client.query(
        "SELECT counter, toUnixTimestamp(window) * 1000, tallyDistinct(maxMap(registers), "
        f"any(precision)) FROM tally.distinct_1m WHERE build = {build} GROUP BY counter, window"
    ).result_rows
    return {(counter, window_ms): estimate for counter, window_ms, estimate in rows}
