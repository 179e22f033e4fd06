"""Reads parts and rows of one build at one side, and writes them at the other under another one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.errors import OperatorError
from pipeline.exchange.plan import Part, Place
from pipeline.exchange.tables import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.exchange.plan import Copy
    from pipeline.exchange.side import Side

_PARTITION = re.compile(r"\(?([0-9]+)(?:,'([0-9-]+)')?\)?")
_NO_PARTITION = "tuple()"
_PARTS = (
    "SELECT table, partition, partition_id, max_block_number, rows, data_uncompressed_bytes "
    "FROM system.parts WHERE database = 'tally' AND active AND rows > 0 "
    "AND has({tables:Array(String)}, table)"
)
_COLUMNS = (
    "SELECT table, groupArray((name, type)) FROM ("
    "SELECT table, name, type FROM system.columns WHERE database = 'tally' "
    "AND has({tables:Array(String)}, table) AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') "
    "ORDER BY table, position) GROUP BY table"
)
# A part is named partition_first_last_level, by the numbers of its blocks.
_BLOCK = "toInt64(splitByChar('_', _part)[3])"
_WHERE = "build = {build:UInt32} AND _partition_id = {partition:String}"


def parts_of(side: Side, build: int) -> list[Part]:
    """The parts a build has. Blocks. Tables without partitions hold all builds in theirs."""
    found = []
    rows = side.rows(_PARTS, {"tables": list(BY_NAME)})
    for table, partition, partition_id, block, size, size_bytes in rows:
        day = day_of(partition, build)
        if day is not None:
            place = Place(table, day)
            found.append(Part(place, partition_id, int(block), int(size), int(size_bytes)))
    return found


def day_of(partition: str, build: int) -> str | None:
    """The day of a build's partition as ClickHouse writes it, empty without one; None if it is
    another build's.
    """
    if partition == _NO_PARTITION:
        return ""
    found = _PARTITION.fullmatch(partition)
    return (found[2] or "") if found is not None and int(found[1]) == build else None


class Copying:
    """Rows from one build to another. Methods block, and raise as the sides do."""

    def __init__(self, source: Side, build: int, cluster: str, target: Side, number: int) -> None:
        self._source = source
        self._build = build
        self._cluster = cluster
        self._target = target
        self._number = number
        self._columns = _common_columns(source, target)

    def copy(self, copy: Copy) -> int:
        """Copy the rows of a place; how many. They are stored when this returns."""
        table = BY_NAME[copy.place.table]
        statement = (
            f"SELECT {', '.join(self._values(table.name))} FROM tally.{table.name} "  # noqa: S608 - names of ours
            f"WHERE {_WHERE} AND {_BLOCK} > {{above:Int64}} "
            f"AND cityHash64({table.share_by}) % {{shares:UInt32}} = {{share:UInt32}}"
        )
        bound = {
            "build": self._build,
            "cluster": self._cluster,
            "partition": copy.partition_id,
            "above": copy.above,
            "shares": copy.shares,
        }
        copied = 0
        for share in range(copy.shares):
            rows = self._source.columns(statement, {**bound, "share": share})
            if rows.num_rows:
                build = pa.array(np.full(rows.num_rows, self._number, np.uint32))
                named = rows.rename_columns(self._columns[table.name])
                self._target.insert(table.name, named.append_column("build", build))
            copied += rows.num_rows
        return copied

    def is_equal(self, place: Place, there: str, here: str | None) -> bool:
        """Whether both sides have the same rows of a place; by the ids of its partition."""
        if here is None:
            return False
        names = ", ".join(self._values(place.table))
        statement = (
            f"SELECT count(), sum(cityHash64({names})) FROM tally.{place.table} FINAL "  # noqa: S608 - names of ours
            f"WHERE {_WHERE}"
        )
        source = {"build": self._build, "partition": there, "cluster": self._cluster}
        [sent] = self._source.rows(statement, source)
        plain = statement.replace(names, ", ".join(map(_quoted, self._columns[place.table])))
        [stored] = self._target.rows(plain, {"build": self._number, "partition": here})
        return tuple(sent) == tuple(stored)

    def _values(self, table: str) -> list[str]:
        """Every column but the build. A replica is named with its cluster, here."""
        return [
            "concat({cluster:String}, '/', replica)" if name == "replica" else _quoted(name)
            for name in self._columns[table]
        ]


def _quoted(name: str) -> str:
    return f"`{name}`"


def _common_columns(source: Side, target: Side) -> Mapping[str, list[str]]:
    """The columns of each table but the build. Raises OperatorError when the sides differ."""
    there, here = (
        {table: list(columns) for table, columns in side.rows(_COLUMNS, {"tables": list(BY_NAME)})}
        for side in (source, target)
    )
    differing = sorted(table for table in {*there, *here} if there.get(table) != here.get(table))
    if differing:
        raise OperatorError(
            f"{differing[0]} is another table at {target.name} than at {source.name}: run the same "
            "version of Tally at both, and tally migrate"
        )
    return {
        table: [name for name, _ in columns if name != "build"] for table, columns in there.items()
    }
