"""One worker: counts the partitions Faust gives it, as far as there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.absorb import absorb
from pipeline.builds.following import handovers_in
from pipeline.bulk import cut_after

if TYPE_CHECKING:
    from pipeline.builds.following import Following
    from pipeline.bulk import Fetch
    from pipeline.checkpoint import Checkpointer
    from pipeline.takeover import LogCheck
    from pipeline.writes.room import Room


class Worker:
    """Counts fetches into shards. Owned by one event loop."""

    def __init__(
        self, checkpointer: Checkpointer, log: LogCheck, room: Room, following: Following
    ) -> None:
        self._checkpointer = checkpointer
        self._log = log
        self._room = room
        self._following = following

    async def count(self, fetch: Fetch, generation: int) -> None:
        """Count one fetch. Waits while too much is unflushed, and at a handover to another build;
        raises ShardRefusedError on a gap."""
        if self._following.is_retired:
            return
        for handover in handovers_in(fetch.records):
            before, fetch = cut_after(fetch, handover.offset)
            await self._count(before, generation)
            if await self._following.wait_at(handover):
                return
        await self._count(fetch, generation)

    async def _count(self, fetch: Fetch, generation: int) -> None:
        owned = self._checkpointer.owned.get(fetch.records.partition)
        if owned is None or generation != self._checkpointer.generation:
            return  # Fetched before a rebalance; its new owner reads it again.
        if fetch.start < owned.shard.position:
            # Read again, or the log is shorter than it was and the consumer began at its start.
            await self._log.check(owned.shard)
            if fetch.next_offset <= owned.shard.position:
                return
        absorbed = absorb(owned.shard, fetch)
        owned.dead_letters.extend(absorbed.dead_letters)
        if self._following.is_live():
            # Of a replay they would tell how old the log is.
            owned.heartbeats_ms.extend(absorbed.heartbeats_ms)
            if absorbed.flush_asked:
                self._room.hurry()
        self._room.take(absorbed.rows)
        await self._room.wait()
