"""The partitions of tables that belong to a build: their size, and how they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads

# The first part of a partition's name, as in `(2,'2026-11-16')`, is the build if the table is
# partitioned by it.
_PARTITIONS = (
    "SELECT table, partition_id, toUInt32(extract(partition, '^[(]?([0-9]+)')), sum(rows), "
    "sum(bytes_on_disk) FROM system.parts WHERE database = 'tally' AND active AND table IN ("
    "SELECT name FROM system.tables WHERE database = 'tally' AND match(partition_key, '^[(]?build')"
    ") GROUP BY table, partition_id, partition"
)
_UNPARTITIONED = (
    "SELECT name FROM system.tables WHERE database = 'tally' AND endsWith(engine, 'MergeTree') "
    "AND NOT match(partition_key, '^[(]?build') AND name IN ("
    "SELECT table FROM system.columns WHERE database = 'tally' AND name = 'build')"
)


class BuildPartition(NamedTuple):
    """A partition of a table that holds rows of one build."""

    table: str
    partition_id: str
    build: int
    rows: int
    bytes: int


def partitions(reads: Reads) -> list[BuildPartition]:
    """All of them. Blocks; raises TryAgainError."""
    return [
        BuildPartition(str(table), str(partition_id), int(build), int(rows), int(size))
        for table, partition_id, build, rows, size in reads.rows(_PARTITIONS)
    ]


def tables_beside(reads: Reads) -> list[str]:
    """The tables that name a build in their rows, but not in their partitions. Blocks."""
    return [str(name) for (name,) in reads.rows(_UNPARTITIONED)]
