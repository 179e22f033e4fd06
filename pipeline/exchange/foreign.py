"""Another cluster's builds as they are kept here: their numbers, and which of them views read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pipeline.errors import OperatorError
from pipeline.exchange.plan import NOTHING, Place
from pipeline.exchange.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.exchange.side import Side

FIRST_FOREIGN = 1 << 31
"""Builds that workers count into are below this number."""

_ORIGINS = (
    "SELECT DISTINCT cluster, source_build FROM tally.foreign_builds WHERE build = {build:UInt32}"
)
_ORIGINATE = (
    "INSERT INTO tally.foreign_builds SELECT {build:UInt32}, {cluster:String}, "
    "{source_build:UInt32}, now64(3)"
)
_COPIED = (
    "SELECT table_name, day, argMax(block, copied_at) FROM tally.exchanged_parts "
    "WHERE build = {build:UInt32} GROUP BY table_name, day"
)
_NOTE = (
    "INSERT INTO tally.exchanged_parts SELECT {build:UInt32}, row.1, row.2, row.3, now64(6) "
    "FROM (SELECT arrayJoin(arrayZip({tables:Array(String)}, {days:Array(String)}, "
    "{blocks:Array(Int64)})) AS row)"
)
_LIVE = "SELECT build FROM tally.live_builds WHERE cluster = {cluster:String}"
_DECLARE = (
    "INSERT INTO tally.builds SELECT {cluster:String}, {build:UInt32}, "
    "coalesce(max(declaration), 0) + 1, now64(3), {note:String} "
    "FROM tally.builds WHERE cluster = {cluster:String}"
)
# Whoever asked for the build before may still be reading it.
_SUPERSEDED = (
    "SELECT DISTINCT build FROM tally.foreign_builds WHERE cluster = {cluster:String} "
    "AND build != {live:UInt32} AND (SELECT argMax(declared_at, declaration) FROM tally.builds "
    "WHERE cluster = {cluster:String}) <= now64(3) - toIntervalMillisecond({wait_ms:Int64})"
)
_PARTITIONS = (
    "SELECT DISTINCT table, partition FROM system.parts WHERE database = 'tally' AND active "
    "AND has({tables:Array(String)}, table) "
    "AND match(partition, concat('^\\\\(?', toString({build:UInt32}), '\\\\b'))"
)


def foreign_number(identity: str, build: int) -> int:
    """The build under which a cluster's build is kept elsewhere: 2^31 and 31 bits of a hash."""
    digest = hashlib.sha256(f"{identity}/{build}".encode()).digest()
    return FIRST_FOREIGN | int.from_bytes(digest[:4], "big")


class Foreign:
    """One build of another cluster, here. Methods block, and raise as `here` does."""

    def __init__(self, here: Side, cluster: str, source_build: int) -> None:
        self.number = foreign_number(cluster, source_build)
        self._here = here
        self._cluster = cluster
        self._source_build = source_build

    def originate(self) -> None:
        """Note whose build this is. Raises OperatorError if the number is another's."""
        origin = {"cluster": self._cluster, "source_build": self._source_build}
        of_build = {"build": self.number}
        if not self._here.rows(_ORIGINS, of_build):
            self._here.run(_ORIGINATE, {**of_build, **origin})
        if len(origins := self._here.rows(_ORIGINS, of_build)) > 1 or (
            tuple(origins[0]) != tuple(origin.values())
        ):
            raise OperatorError(
                f"build {self.number} at {self._here.name} has cells of more than one cluster: "
                f"give this one another identity with tally exchange --new-identity"
            )

    def copied(self) -> dict[Place, int]:
        """The last block of each place that is here."""
        rows = self._here.rows(_COPIED, {"build": self.number})
        return {Place(table, day): int(block) for table, day, block in rows}

    def note(self, blocks: Mapping[Place, int]) -> None:
        """Note what is confirmed to be here."""
        _note(self._here, self.number, blocks)

    def declare(self, note: str) -> bool:
        """Let views read this build of the cluster, by one insert; False if they do already."""
        [*live] = self._here.rows(_LIVE, {"cluster": self._cluster})
        if live and int(live[0][0]) == self.number:
            return False
        named = {"cluster": self._cluster, "build": self.number, "note": note}
        self._here.run(_DECLARE, named)
        return True

    def drop_superseded(self, wait_s: float) -> list[int]:
        """Drop the cluster's other builds, this one having been declared that long ago."""
        asked = {
            "cluster": self._cluster,
            "live": self.number,
            "wait_ms": round(wait_s * 1000),
        }
        dropped = [int(build) for (build,) in self._here.rows(_SUPERSEDED, asked)]
        return [build for build in dropped if _drop(self._here, build)]


def forget(here: Side, cluster: str) -> list[int]:
    """Let views read nothing of a cluster any more, and drop its cells. Its builds here.

    Raises OperatorError if nothing of it is here. What is sent again is counted again.
    """
    rows = here.rows(
        "SELECT DISTINCT build FROM tally.foreign_builds WHERE cluster = {cluster:String}",
        {"cluster": cluster},
    )
    if not rows:
        raise OperatorError(f"{here.name} has nothing of a cluster {cluster}; see tally status")
    here.run(_DECLARE, {"cluster": cluster, "build": 0, "note": "forgotten"})
    shown = "ALTER TABLE tally.exchanges DELETE WHERE cluster = {cluster:String}"
    here.run(shown, {"cluster": cluster})
    return [int(build) for (build,) in rows if _drop(here, int(build))]


def _drop(here: Side, build: int) -> bool:
    """Drop whatever there is of a build; False if there was nothing."""
    asked = {"build": build, "tables": [table.name for table in TABLES]}
    found = here.rows(_PARTITIONS, asked)
    if not found:
        return False
    # First of all it is noted as not being here: what is sent again is sent whole.
    places = here.rows(_COPIED, {"build": build})
    _note(here, build, {Place(table, day): NOTHING for table, day, _ in places})
    for table, partition in found:
        here.run(f"ALTER TABLE tally.{table} DROP PARTITION {partition}", {})
    return True


def _note(here: Side, build: int, blocks: Mapping[Place, int]) -> None:
    if blocks:
        here.run(
            _NOTE,
            {
                "build": build,
                "tables": [place.table for place in blocks],
                "days": [place.day for place in blocks],
                "blocks": list(blocks.values()),
            },
        )
