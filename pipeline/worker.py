"""One worker: counts the partitions Faust gives it, as far as there is room."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from pipeline.absorb import absorb
from pipeline.builds.following import handovers_in
from pipeline.errors import TryAgainError
from pipeline.fetches import cut_after
from pipeline.metrics.definitions import worker as metric
from pipeline.metrics.meter import UNMEASURED
from pipeline.reason_kinds import kind_of

if TYPE_CHECKING:
    from pipeline.absorb import Absorbed
    from pipeline.builds.following import Following
    from pipeline.checkpoint import Checkpointer, OwnedShard
    from pipeline.fetches import Fetch
    from pipeline.metrics.meter import Meter
    from pipeline.takeover import LogCheck
    from pipeline.writes.room import Room

log = logging.getLogger(__name__)

_ASK_AGAIN_S = 0.5
_LOOK_TIMEOUT_S = 120.0


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
        raises ShardRefusedError on a gap, and where the log lost what was counted of it."""
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
        # Read again, or the log is shorter than it was and the consumer began at its start.
        is_again = fetch.start < owned.shard.position
        if is_again or _has_new_leader(owned, fetch):
            await self._check_log(owned, generation)
            if generation != self._checkpointer.generation:
                return
            if fetch.next_offset <= owned.shard.position:
                return
        absorbed = absorb(owned.shard, fetch)
        owned.epoch = fetch.epochs[1] if fetch.epochs else owned.epoch
        owned.dead_letters.extend(absorbed.dead_letters)
        if self._following.is_live():
            # Of a replay they would tell how old the log is.
            owned.heartbeats_ms.extend(absorbed.heartbeats_ms)
            if absorbed.flush_asked:
                self._room.hurry()
        self._room.take(absorbed.rows + absorbed.controls, newest=fetch.is_newest)
        self._measure(fetch, absorbed)
        await self._room.wait()

    async def _check_log(self, owned: OwnedShard, generation: int) -> None:
        """Raises ShardRefusedError. A log that was away a moment ago may be so again.

        Other partitions wait meanwhile, so after a while it raises TryAgainError, which ends the
        worker: another process, with other connections, may see what this one does not.
        """
        partition, is_told = owned.shard.partition, False
        time_s = asyncio.get_running_loop().time
        give_up_s = time_s() + _LOOK_TIMEOUT_S
        while generation == self._checkpointer.generation:
            try:
                await self._log.check(owned.shard)
            except TryAgainError as error:
                if time_s() >= give_up_s:
                    raise
                if not is_told:
                    log.warning(
                        "reading waits to look at the log of shard %d: %s", partition, error
                    )
                is_told = True
                await asyncio.sleep(_ASK_AGAIN_S)
            else:
                if is_told:
                    log.warning("the log of shard %d is there again; reading goes on", partition)
                return

    def _measure(self, fetch: Fetch, absorbed: Absorbed) -> None:
        self._meter.add(metric.FETCHES())
        self._meter.add(metric.RECORDS(), len(fetch.records))
        self._meter.add(metric.ROWS(), absorbed.rows)
        self._meter.add(metric.FETCHED_BYTES(), fetch.size_bytes)
        kinds = Counter(kind_of(letter.reason) for letter in absorbed.dead_letters)
        for kind, letters in kinds.items():
            self._meter.add(metric.DEAD_LETTERS(kind=kind), letters)


def _has_new_leader(owned: OwnedShard, fetch: Fetch) -> bool:
    """Whether another leader took it, or the same after a start, than what was counted before.

    A log loses its end by nothing else, and may have grown past the position by the time it is
    read: what came in the place of what was lost would never be counted.
    """
    return fetch.epochs is not None and fetch.epochs[0] != owned.epoch
