"""The pulse of a worker: flush and checkpoint in turn, at a pace that the servers can follow."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pipeline.errors import ShardRefusedError, TallyError, TryAgainError
from pipeline.metrics.definitions import worker as metric
from pipeline.metrics.meter import UNMEASURED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pipeline.checkpoint import Checkpointer, OwnedShard
    from pipeline.group import Group
    from pipeline.metrics.definitions.worker import WriteKind
    from pipeline.metrics.meter import Meter
    from pipeline.writes.pace import Pace
    from pipeline.writes.room import Room

log = logging.getLogger(__name__)

STUCK_S = 180.0
"""Every server has time-outs of its own. A write that gets no further for longer than all of them
hangs, and a hung worker is worth less than one that starts anew."""

FINISH_S = 20.0
"""How long a clean stop waits for its last checkpoint."""


class Pulse:
    """Writes what one worker has counted. Owned by one event loop."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        group: Group,
        room: Room,
        pace: Pace,
        *,
        check_first: Callable[[Sequence[OwnedShard]], Awaitable[None]],
        meter: Meter = UNMEASURED,
    ) -> None:
        """`check_first` is asked about shards before they are first flushed; what it raises keeps
        all from being written."""
        self._checkpointer = checkpointer
        self._group = group
        self._room = room
        self._pace = pace
        self._check_first = check_first
        # Held by whoever writes or takes over: a checkpoint of the last generation must have ended
        # before the next one asks for the committed offsets.
        self.writing = asyncio.Lock()
        self._deadline: asyncio.Timeout | None = None
        self._generation = -1
        self._stalled: dict[int, int] = {}
        self._meter = meter
        meter.read(metric.FLUSH_AGE(), pace.flush_age_s)
        meter.read(metric.CHECKPOINT_AGE(), pace.checkpoint_age_s)
        meter.read(metric.UNFLUSHED_ROWS(), lambda: room.rows)
        meter.read(metric.OWNED_SHARDS(), lambda: len(checkpointer.owned))

    def on_taken_over(self) -> None:
        """Checkpoint soon, so that it is known who counts what, from where on."""
        self._pace.checkpoint_soon()

    def on_progress(self) -> None:
        """The write under way got further, so it does not hang, however long it takes.

        Raises TryAgainError when the group is rebalancing: nobody needs the rest of the write, and
        the next owner waits for its end.
        """
        if self._deadline is None:
            return
        if self._checkpointer.generation != self._generation:
            raise TryAgainError(
                "the group is rebalancing: what was not written is its next owner's"
            )
        self._deadline.reschedule(asyncio.get_running_loop().time() + STUCK_S)

    async def run(self) -> None:
        """Flush and checkpoint for ever.

        A server that is away or refuses is asked again with growing pauses; meanwhile counting goes
        on until there is no room. Raises ShardRefusedError for a shard that must not be written.
        Anything else that is raised is a bug and ends the worker.
        """
        while True:
            await self._pause()
            await self.beat()

    async def beat(self) -> None:
        """Write once. Takes as long as the servers need; raises TimeoutError when it hangs, and
        ShardRefusedError."""
        # Only a checkpoint writes dead letters, so reading must not wait for the interval's end.
        checkpoint = self._pace.checkpoint_is_due() or self._room.lacks_dead_letters()
        kind: WriteKind = "checkpoint" if checkpoint else "flush"
        rows = self._room.rows
        try:
            # The deadline is for the write, not for waiting until a take-over is done.
            async with self.writing, asyncio.timeout(STUCK_S) as self._deadline:
                self._generation = self._checkpointer.generation
                self._pace.begin()
                self._room.begin()
                await self._write(checkpoint=checkpoint)
            # It is over: a last write may come while this still looks for what stalls.
            self._deadline = None
            if checkpoint:
                async with asyncio.timeout(STUCK_S):
                    await self._unstall()
        except ShardRefusedError:
            raise
        except TallyError as error:
            self._pace.fail()
            self._meter.add(metric.WRITE_FAILURES(write=kind))
            log.warning("%s; trying again in %.1f s", error, self._pace.pause_s)
            return
        finally:
            self._deadline = None
        if self._pace.failures:
            log.warning("writing goes on after %d failures", self._pace.failures)
        self._pace.succeed(flushed_s=self._checkpointer.flushed_s, checkpoint=checkpoint)
        self._meter.observe(metric.WRITE_SECONDS(write=kind), self._pace.took_s)
        owned = self._checkpointer.owned.values()
        self._meter.set(metric.LIVE_CELLS(), sum(one.shard.live_cells() for one in owned))
        await self._room.free(rows)

    async def finish(self) -> None:
        """A last checkpoint before a stop, so that the next start re-reads nothing.

        Afterwards nothing is owned, so nothing is counted or written any more. Never raises.
        """
        try:
            async with asyncio.timeout(FINISH_S), self.writing:
                await self._write(checkpoint=True)
        except (TallyError, TimeoutError) as error:
            log.warning("stopping without a last checkpoint, the next start reads on: %r", error)
        self._checkpointer.disown()

    async def _pause(self) -> None:
        """Wait as long as the pace says, unless what is counted meanwhile takes up the room."""
        if self._pace.failures:
            await asyncio.sleep(self._pace.pause_s)
        else:
            await self._room.until_wanted(self._pace.pause_s, self._pace.newest_after_s)

    async def _write(self, *, checkpoint: bool) -> None:
        unflushed = [one for one in self._checkpointer.owned.values() if one.flushed < 0]
        if unflushed:
            await self._check_first(unflushed)
        await (self._checkpointer.checkpoint() if checkpoint else self._checkpointer.flush())

    async def _unstall(self) -> None:
        """Fetch again where the consumer is ahead of the shard and nothing came since last time.

        Faust can lose an event between its consumer and an agent. Reading twice is harmless.
        """
        stalled: dict[int, int] = {}
        for partition, owned in list(self._checkpointer.owned.items()):
            counted = owned.shard.position
            fetched = await self._group.position(partition)
            if fetched is not None and fetched > counted == owned.shard.position:
                stalled[partition] = counted
                if self._stalled.get(partition) == counted:
                    log.warning(
                        "partition %d stalls at offset %d; fetching again", partition, counted
                    )
                    await self._group.seek(partition, counted)
        self._stalled = stalled
