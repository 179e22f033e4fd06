"""Taking over partitions after a rebalance: shards as the changelog has them, whoever had them.

No clock and no event loop of its own: it awaits what it is given, so the simulation runs it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pipeline.errors import ShardRefusedError
from pipeline.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class LogCheck(Protocol):
    """Compares a shard with the log it was counted from."""

    async def check(self, shard: Shard) -> None:
        """Raise OperatorError when the log is not the one the shard was counted from."""
        ...


async def take_over(
    recovered: Sequence[RecoveredShard],
    generation: int,
    checkpointer: Checkpointer,
    *,
    offsets: Offsets,
    changelog: ChangelogReader,
    log: LogCheck,
    replica: str = "",
) -> bool:
    """Own the partitions whose changelogs were recovered; False if the group has moved on.

    The committed offset comes first: the broker fences it by generation, so from then on nobody
    else moves it. What was committed was in the changelog before, so reading that to its end, until
    the end has not moved, finds all of it. Raises OperatorError when a partition's offset,
    changelog and log do not belong together.
    """
    shards: list[tuple[Shard, RecoveredShard]] = []
    for found in recovered:
        committed = await offsets.committed(found.partition)
        while await changelog.read_on(found):
            pass
        position = found.position(committed)
        if position is None and committed is None and found.is_new():
            start = await offsets.log_start(found.partition)
            shard = Shard(found.partition, start, replica=replica)
            if not await checkpointer.begin(shard, found.writer(generation), generation):
                return False
        elif position is None:
            found.refuse(committed)
        else:
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
        shards.append((shard, found))
    checkpointer.own(shards, generation)
    return True
