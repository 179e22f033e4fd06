"""Taking over partitions after a rebalance: shards as the changelog has them, whoever had them.

No clock and no event loop of its own: it awaits what it is given, so the simulation runs it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pipeline.errors import ShardRefusedError
from pipeline.first_rules import ControlLog, LogAhead, rules_at_start
from pipeline.rules import CountingRules
from pipeline.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.checkpoint import Checkpointer
    from pipeline.recovery import RecoveredShard


class Offsets(Protocol):
    """What the consumer group and the log know of a partition."""

    async def committed(self, partition: int) -> int | None:
        """The committed next offset, or None if there never was one."""
        ...

    async def log_start(self, partition: int) -> int:
        """The first offset the log still has."""
        ...


class ChangelogReader(Protocol):
    """Reads what was appended to a changelog after it was recovered."""

    async def read_on(self, recovered: RecoveredShard) -> bool:
        """Add what is there beyond `recovered`; False if that is nothing."""
        ...


class Plan(Protocol):
    """Knows the counting rules that somebody last began to apply."""

    async def planned_rules(self) -> CountingRules | None:
        """None if nobody ever applied any. Raises TryAgainError, OperatorError."""
        ...


class LogCheck(LogAhead, Protocol):
    """Compares a shard with the log it was counted from, and reads where one begins."""

    async def check(self, shard: Shard) -> None:
        """Raise OperatorError when the log is not the one the shard was counted from."""
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a build begins: from when on it counts, and by which rules, if not by those in the log.

    Rules that stand in the log with a lesser version never hold then, so with the newest rules all
    of history is counted by them. `starts` are the offsets where the log began when that was
    decided; of partitions that are not in it, nobody knows. `incarnations` are those under which
    the live build counted that log, so that both give the same cells the same names.
    """

    counts_from_ms: int = 0
    rules: CountingRules | None = None
    starts: tuple[int, ...] = ()
    incarnations: tuple[int, ...] = ()

    def incarnation(self, partition: int) -> int:
        """Under which a partition is counted; those that were added since have no other."""
        return self.incarnations[partition] if partition < len(self.incarnations) else 0

    def check(self, partition: int, start: int) -> None:
        """Raise ShardRefusedError if what was to be counted has been deleted since."""
        if partition < len(self.starts) and start > self.starts[partition]:
            raise ShardRefusedError(
                partition,
                f"the log began at offset {self.starts[partition]} when this build was begun, and "
                f"begins at {start} now: begin another one with `tally replay --new`",
            )


FROM_THE_LOG = Beginning()
NO_RULES = CountingRules()


async def take_over(
    recovered: Sequence[RecoveredShard],
    generation: int,
    checkpointer: Checkpointer,
    *,
    offsets: Offsets,
    changelog: ChangelogReader,
    log: LogCheck,
    control: ControlLog,
    plan: Plan,
    replica: str = "",
    beginning: Beginning = FROM_THE_LOG,
) -> bool:
    """Own the partitions whose changelogs were recovered; False if the group has moved on.

    The committed offset comes first: the broker fences it by generation, so from then on nobody
    else moves it. What was committed was in the changelog before, so reading that to its end, until
    the end has not moved, finds all of it. Raises OperatorError when a partition's offset,
    changelog and log do not belong together. A partition that nobody has counted begins where its
    log does, as `beginning` says, by its rules or those that `rules_at_start` finds or writes.
    """
    shards: dict[int, tuple[Shard, RecoveredShard]] = {}
    begun: list[RecoveredShard] = []
    for found in recovered:
        committed = await offsets.committed(found.partition)
        while await changelog.read_on(found):
            pass
        position = found.position(committed)
        if position is None and committed is None and found.is_new():
            begun.append(found)
            continue
        if position is None:
            found.refuse(committed)
        shard = found.resume(position)
        if shard.replica != replica:
            raise ShardRefusedError(
                found.partition,
                f"it was counted as replica {shard.replica!r}, and its open cells would count "
                f"twice as {replica!r}; set TALLY_REPLICA={shard.replica}",
            )
        await log.check(shard)
        # An offset that was lost or went back is set right before anybody relies on it.
        if position != committed and not await checkpointer.commit(shard, generation):
            return False
        shards[found.partition] = (shard, found)

    async def known_rules() -> CountingRules:
        # What shards count by is as old as their checkpoints; the plan came before any of it.
        planned = await plan.planned_rules()
        return _newest([*(shard.rules for shard, _ in shards.values()), planned or NO_RULES])

    for found in begun:
        start = await offsets.log_start(found.partition)
        beginning.check(found.partition, start)
        rules = beginning.rules or await rules_at_start(
            found.partition, start, known_rules, log=log, control=control
        )
        shard = Shard(
            found.partition,
            start,
            incarnation=beginning.incarnation(found.partition),
            rules=rules,
            replica=replica,
            counts_from_ms=beginning.counts_from_ms,
        )
        if not await checkpointer.begin(shard, found.writer(generation), generation):
            return False
        shards[found.partition] = (shard, found)
    checkpointer.own([shards[partition] for partition in sorted(shards)], generation)
    return True


def _newest(found: Iterable[CountingRules]) -> CountingRules:
    """Those of the greatest version."""
    newest = NO_RULES
    for rules in found:
        newest = rules if rules.supersedes(newest) else newest
    return newest
