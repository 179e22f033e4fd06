"""Does the log have all that ClickHouse was told of it?"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

from pipeline.builds.positions import reached
from pipeline.clickhouse import connect
from pipeline.errors import ShardRefusedError
from pipeline.log_check import WHAT_TO_DO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.builds.positions import Reached
    from pipeline.checkpoint import OwnedShard
    from pipeline.log_check import RecoveryReader
    from pipeline.shard import Shard
    from schemas.addresses import ClickHouseAddress


def check_incarnation(shard: Shard, flushed: Reached) -> None:
    """Raise ShardRefusedError if ClickHouse knows of a later incarnation than the changelog. Pure.

    That was begun by `tally accept-log`, so it is the changelog that has lost its end.
    """
    if flushed.incarnation > shard.incarnation:
        raise ShardRefusedError(
            shard.partition,
            f"ClickHouse has incarnation {flushed.incarnation} of it, of which its changelog does "
            f"not know, and has lost its end: {WHAT_TO_DO}",
        )


class FlushedCheck:
    """Looks at shards of one build before their owner first flushes them.

    Whoever had them before may have flushed more than it checkpointed, and died. What the log has
    lost of that since, others have taken the offsets of; and as ClickHouse keeps of two values of a
    cell the greater one, what is counted of them would vanish behind what is lost. What came in the
    place of what was lost before a shard's position is never counted, and of a shard that nobody
    has counted since its log was accepted ClickHouse alone tells it. It is not asked at a
    take-over, since counting goes on while ClickHouse is away.
    """

    def __init__(self, address: ClickHouseAddress, build: int, log: RecoveryReader) -> None:
        """Never blocks."""
        self._address = address
        self._build = build
        self._log = log

    async def __call__(self, shards: Sequence[OwnedShard]) -> None:
        """Raises ShardRefusedError for a shard that must not be flushed, TryAgainError when a
        server is away."""
        flushed = await asyncio.to_thread(self._flushed)
        for owned in shards:
            shard = owned.shard
            if (found := flushed.get(shard.partition)) is None:
                continue
            check_incarnation(shard, found)
            through = max(found.through, shard.guard_through)
            if found.incarnation == shard.incarnation and (
                through >= owned.committed or owned.is_unmarked
            ):
                await self._log.check_flushed(shard, found.through, found.log_ms)

    def _flushed(self) -> Mapping[int, Reached]:
        with closing(connect(self._address)) as client:
            return reached(client, self._build)
