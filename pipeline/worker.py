"""One worker: counts the partitions Faust gives it, as far as there is room."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pipeline.absorb import absorb
from pipeline.builds.following import handovers_in
from pipeline.fetches import cut_after
from pipeline.metrics.definitions import worker as metric
from pipeline.metrics.meter import UNMEASURED
from pipeline.reason_kinds import kind_of

if TYPE_CHECKING:
    from pipeline.absorb import Absorbed
    from pipeline.builds.following import Following
    from pipeline.checkpoint import Checkpointer
    from pipeline.fetches import Fetch
    from pipeline.metrics.meter import Meter
    from pipeline.takeover import LogCheck
    from pipeline.writes.room import Room


class Worker:
    """Counts fetches into shards. Owned by one event loop."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        log: LogCheck,
        room: Room,
        following: Following,
        meter: Meter = UNMEASURED,
    ) -> None:
        self._checkpointer = checkpointer
        self._log = log
        self._room = room
        self._following = following
        self._meter = meter

    async def count(self, fetch: Fetch, generation: int) -> None:
        """Count one fetch. Waits while too much is unflushed, and at a handover to another build;
        raises ShardRefusedError on a gap."""
        if self._following.is_retired:
            return
        handovers = handovers_in(fetch.records)
        end_ms = int(fetch.records.timestamps_ms.max()) if handovers and fetch.is_newest else None
        for handover in handovers:
            before, fetch = cut_after(fetch, handover.offset)
            await self._count(before, generation)
            if await self._following.wait_at(handover, end_ms):
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
        self._room.take(absorbed.rows + absorbed.controls, newest=fetch.is_newest)
        self._measure(fetch, absorbed)
        await self._room.wait()

    def _measure(self, fetch: Fetch, absorbed: Absorbed) -> None:
        self._meter.add(metric.FETCHES())
        self._meter.add(metric.RECORDS(), len(fetch.records))
        self._meter.add(metric.ROWS(), absorbed.rows)
        self._meter.add(metric.FETCHED_BYTES(), fetch.size_bytes)
        kinds = Counter(kind_of(letter.reason) for letter in absorbed.dead_letters)
        for kind, letters in kinds.items():
            self._meter.add(metric.DEAD_LETTERS(kind=kind), letters)
