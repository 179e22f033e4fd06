"""Taking over partitions after a rebalance: shards as of the committed offset, whoever had them.

No clock and no event loop of its own: it awaits what it is given, so the simulation runs it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.changelog import RecoveredShard
    from pipeline.checkpoint import Checkpointer
    from pipeline.shard import Shard


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
        if committed is None:
            shard = found.begin(await offsets.log_start(found.partition))
            if not await checkpointer.begin(shard, generation):
                return False
        else:
            shard = found.resume(committed)
            await log.check(shard)
        shards.append((shard, found))
    checkpointer.own(shards, generation)
    return True
