"""Memory that is known to grow while a soak runs, by process: named here, so that it hides nothing.

| process | what | how much |
|---|---|---|
| worker | members that count once | PAIR_BYTES for each pair of member and counter |
| log | the index of the segments that grow | INDEX_BYTES for every INDEX_EVERY_BYTES of them |
| ClickHouse | its caches, primary keys and granules | as it tells itself, in system tables |

The web process has nothing that is known to grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks._soak_traffic import pairs_at

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from clickhouse_connect.driver import Client

PAIR_BYTES = 52
"""As docs/once-per-member.md has measured it."""

INDEX_BYTES, INDEX_EVERY_BYTES = 24, 32 * 1024
"""Of a closed segment the index lies on the disk beside it, and is read when it is needed."""

IN_CLICKHOUSE = """\
SELECT (SELECT sum(value) FROM system.metrics WHERE metric LIKE '%CacheBytes') + (
    SELECT sum(primary_key_bytes_in_memory_allocated + index_granularity_bytes_in_memory_allocated)
    FROM system.parts)"""


def worker_bytes(at_s: float) -> float:
    """What members that count once take, so many seconds after the load began."""
    return PAIR_BYTES * pairs_at(at_s)


def log_bytes(segments: Iterable[tuple[int, bool]]) -> float:
    """What indexes take, of segments by their size and whether they are closed."""
    growing = sum(size for size, is_closed in segments if not is_closed)
    return growing / INDEX_EVERY_BYTES * INDEX_BYTES


def segments_in(folder: Path) -> list[tuple[int, bool]]:
    """Of a running log; a closed segment has a companion. Reads the disk.

    One that goes while it is looked at is left out.
    """
    found = []
    for path in folder.rglob("*.log"):
        try:
            found.append((path.stat().st_size, path.with_suffix(".meta").exists()))
        except FileNotFoundError:
            continue
    return found


def clickhouse_bytes(client: Client) -> float:
    """What ClickHouse says that its caches, primary keys and granules take. Blocks."""
    [(found,)] = client.query(IN_CLICKHOUSE).result_rows
    return float(found)
