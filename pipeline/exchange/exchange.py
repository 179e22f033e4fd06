"""One pass of the exchange: what came since the last one, to the other cluster's ClickHouse.

Anybody may run it at any moment, twice at once, or be killed in the middle: rows merge by max, and
what was copied is noted after it is confirmed, at the other side. Only this cluster's own build is
sent, never what others sent to it, so it does not matter who exchanges with whom.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.exchange import plan, removals
from pipeline.exchange.copying import Copying, parts_of
from pipeline.exchange.foreign import Foreign
from pipeline.exchange.identity import check_different, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.exchange.plan import Copy, Part, Place
    from pipeline.exchange.removals import Removal
    from pipeline.exchange.side import Side

_BUILD = "SELECT build FROM tally.live_builds WHERE cluster = ''"
_LOG_TIME = (
    "SELECT toUnixTimestamp64Milli(coalesce(min(log_time), toDateTime64(0, 3, 'UTC'))) FROM ("
    "SELECT max(positions.log_time) AS log_time FROM tally.positions "
    "WHERE build = {build:UInt32} GROUP BY shard)"
)
_RECORD = (
    "INSERT INTO tally.exchanges SELECT {cluster:String}, {build:UInt32}, {source_build:UInt32}, "
    "fromUnixTimestamp64Milli({log_ms:Int64}, 'UTC'), {rows:UInt64}, now64(3)"
)


@dataclass(slots=True)
class Passed:
    """What a pass did. All that the log had up to `log_ms`, in every shard, is there now."""

    cluster: str
    build: int
    log_ms: int
    rows: int = 0
    mended: list[Place] = field(default_factory=list)
    declared: bool = False
    removed: list[Removal] = field(default_factory=list)
    dropped_builds: list[int] = field(default_factory=list)


class Exchange:
    """From one ClickHouse to another."""

    def __init__(self, source: Side, target: Side, longest_query_s: float) -> None:
        """`longest_query_s` is how long anybody's query may run: nothing is dropped before."""
        self._source = source
        self._target = target
        self._longest_query_s = longest_query_s
        self._unchecked = [source, target]

    def run(self, *, check: bool) -> Passed:
        """One pass; with `check` it also compares what was copied before, and mends it. Blocks.

        Raises TryAgainError when one side is away: the next pass does what is left. Raises
        OperatorError when somebody must act.
        """
        while self._unchecked:
            self._unchecked[-1].check_migrated()
            self._unchecked[-1].check_one_server()
            self._unchecked.pop()
        cluster = identity_of(self._source)
        check_different(self._source, cluster, self._target, identity_of(self._target))
        build = self._live_build()
        foreign = Foreign(self._target, cluster, build)
        foreign.originate()
        # Log times and what went come before the parts, which then hold at least as much.
        [(log_ms,)] = self._source.rows(_LOG_TIME, {"build": build})
        expired = removals.expired(self._source, build)
        there = {part.place for part in parts_of(self._source, build)}
        parts = parts_of(self._source, build)
        passed = Passed(cluster, build, int(log_ms))
        copying = Copying(self._source, build, cluster, self._target, foreign.number)
        self._copy(plan.to_copy(parts, foreign.copied()), copying, foreign, passed)
        if check:
            passed.mended = self._differing(parts, copying, foreign.number)
            self._copy(plan.whole(parts, passed.mended), copying, foreign, passed)
        # A build that was superseded may be dropped there at any time, which is no retention.
        if self._live_build() == build:
            passed.declared = foreign.declare(f"from {self._source.name}, build {build} there")
            passed.removed = self._remove(foreign, there, expired)
            passed.dropped_builds = foreign.drop_superseded(self._longest_query_s)
            self._record(passed, foreign.number)
        return passed

    def _live_build(self) -> int:
        [(build,)] = self._source.rows(_BUILD, {})
        return int(build)

    def _copy(
        self, copies: Iterable[Copy], copying: Copying, foreign: Foreign, passed: Passed
    ) -> None:
        for copy in copies:
            passed.rows += copying.copy(copy)
            foreign.note({copy.place: copy.block})

    def _differing(self, parts: Sequence[Part], copying: Copying, number: int) -> list[Place]:
        """Places that have other rows here than there, though all blocks were copied.

        One that changes meanwhile differs too, and is copied once more than needed.
        """
        here = {part.place: part.partition_id for part in parts_of(self._target, number)}
        there = {part.place: part.partition_id for part in parts}
        return [
            place
            for place, partition_id in there.items()
            if not copying.is_equal(place, partition_id, here.get(place))
        ]

    def _remove(
        self, foreign: Foreign, there: set[Place], expired: Sequence[Removal]
    ) -> list[Removal]:
        here = {part.place for part in parts_of(self._target, foreign.number)}
        partitions = removals.of_partitions(plan.gone(there, here), foreign.copied())
        removing = removals.Removals(self._target, foreign.number, self._longest_query_s)
        return removing.remove([*partitions, *expired], here)

    def _record(self, passed: Passed, number: int) -> None:
        self._target.run(
            _RECORD,
            {
                "cluster": passed.cluster,
                "build": number,
                "source_build": passed.build,
                "log_ms": passed.log_ms,
                "rows": passed.rows,
            },
        )
