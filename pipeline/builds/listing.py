"""Which builds there are: what `tally builds` lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.builds.live import FOREIGN, live_build
from pipeline.builds.members import hosts_of_members
from pipeline.builds.partitions import partitions
from pipeline.builds.positions import reached
from pipeline.builds.rebuilds import Rebuild, State, read_rebuilds
from pipeline.errors import OperatorError
from pipeline.groupless import log_ends
from pipeline.reads.reads import Reads

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from schemas.addresses import KafkaAddress

_DECLARED = (
    "SELECT build, max(declaration), toUnixTimestamp64Milli(argMax(declared_at, declaration)), "
    "argMax(note, declaration) FROM tally.builds WHERE cluster = '' GROUP BY build"
)
_KNOWN = "SELECT DISTINCT build FROM tally.positions WHERE build < {foreign:UInt32}"


@dataclass(frozen=True, slots=True)
class Build:
    """One counting of the log.

    `behind` is how many records of the log it has not flushed; `workers` how many count it now.
    """

    build: int
    is_live: bool
    declared_at_ms: int | None
    note: str
    rebuild: Rebuild | None
    behind: int
    workers: int
    rows: int
    bytes: int

    @property
    def state(self) -> str:
        """In one word."""
        if self.is_live:
            return "live"
        if self.declared_at_ms is not None:
            return "replaced"
        return "replaying" if self.workers else "waiting"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "build": self.build,
            "state": self.state,
            "declared_at_ms": self.declared_at_ms,
            "counts_from_ms": self.rebuild.counts_from_ms if self.rebuild else 0,
            "base": self.rebuild.base if self.rebuild else 0,
            "behind": self.behind,
            "workers": self.workers,
            "rows": self.rows,
            "bytes": self.bytes,
            "note": self.note,
        }


class Builds:
    """The builds of one log and one ClickHouse. Methods block, and raise TryAgainError."""

    def __init__(self, kafka: KafkaAddress, client: Client, clock: Clock) -> None:
        self._kafka = kafka
        self._client = client
        self._reads = Reads(client, clock)

    def all(self) -> list[Build]:
        """Those that were not dropped, in the order of their numbers."""
        ends = log_ends(self._kafka)
        live = live_build(self._client)
        declared = {int(row[0]): row for row in self._reads.rows(_DECLARED)}
        rebuilds = {
            number: one
            for number, one in read_rebuilds(self._client).items()
            if one.state != State.DROPPED
        }
        known = {int(build) for (build,) in self._reads.rows(_KNOWN, {"foreign": FOREIGN})}
        sizes = self._sizes()
        return [
            self._build(
                number,
                declared.get(number),
                rebuilds.get(number),
                is_live=number == live,
                ends=ends,
                size=sizes.get(number, (0, 0)),
            )
            for number in sorted({live, *known, *rebuilds})
        ]

    def previous(self) -> int:
        """The build that was live before this one. Raises OperatorError if there was none, or it
        was dropped."""
        rows = self._reads.rows(
            "SELECT build FROM tally.builds WHERE cluster = '' ORDER BY declaration DESC"
        )
        before = [int(build) for (build,) in rows if build != rows[0][0]]
        rebuild = read_rebuilds(self._client).get(before[0]) if before else None
        if not before or (rebuild is not None and rebuild.state == State.DROPPED):
            raise OperatorError("no build was live before this one, or it was dropped")
        return before[0]

    def _build(
        self,
        number: int,
        declared: Any,
        rebuild: Rebuild | None,
        *,
        is_live: bool,
        ends: list[int],
        size: tuple[int, int],
    ) -> Build:
        at = reached(self._client, number)
        behind = sum(
            max(0, end - (at[shard].through + 1 if shard in at else 0))
            for shard, end in enumerate(ends)
        )
        return Build(
            number,
            is_live,
            int(declared[2]) if declared else None,
            str(declared[3]) if declared else (rebuild.note if rebuild else ""),
            rebuild,
            behind,
            len(hosts_of_members(self._kafka, number)),
            *size,
        )

    def _sizes(self) -> dict[int, tuple[int, int]]:
        """Rows and bytes by build."""
        sizes: dict[int, tuple[int, int]] = {}
        for one in partitions(self._reads):
            rows, size = sizes.get(one.build, (0, 0))
            sizes[one.build] = (rows + one.rows, size + one.bytes)
        return sizes
