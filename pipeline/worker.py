"""One worker: counts the partitions Faust gives it, and pulses flushes and checkpoints."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.dead_letters import dead_letters
from pipeline.decode import Control, Refused, decode
from pipeline.errors import BadInputError, ShardRefusedError, TallyError
from pipeline.rules import RULES_KIND, CountingRules, parse_rules
from pipeline.shard import Row

if TYPE_CHECKING:
    from pipeline.bulk import Fetch
    from pipeline.checkpoint import Checkpointer, OwnedShard
    from pipeline.clock import Clock
    from pipeline.group import Group
    from pipeline.takeover import LogCheck
    from schemas.settings import Settings

log = logging.getLogger(__name__)

MAX_UNFLUSHED_ROWS = 2_000_000
MAX_DEAD_LETTERS = 10_000
"""Beyond these the worker stops reading until ClickHouse and Kafka have taken what is there."""

FEW_ROWS = 100
"""Up to so many rows are counted one by one: columns have a fixed cost per fetch."""

STUCK_S = 180.0
_BACKOFF_S_MAX = 10.0


class Worker:
    """Counts fetches into shards. Owned by one event loop."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        group: Group,
        log: LogCheck,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._checkpointer = checkpointer
        self._group = group
        self._log = log
        self._clock = clock
        self._settings = settings
        # Held by whoever writes or takes over: a checkpoint of the last generation must have ended
        # before the next one asks for the committed offsets.
        self.writing = asyncio.Lock()
        self._unflushed_rows = 0
        self._checkpoint_now = False
        self._room = asyncio.Condition()
        self._stalled: dict[int, int] = {}

    def on_taken_over(self) -> None:
        """Checkpoint soon, so that it is known who counts what, from where on."""
        self._checkpoint_now = True

    async def count(self, fetch: Fetch, generation: int) -> None:
        """Count one fetch. Waits while too much is unflushed; raises ShardRefusedError on a gap."""
        owned = self._checkpointer.owned.get(fetch.records.partition)
        if owned is None or generation != self._checkpointer.generation:
            return  # Fetched before a rebalance; its new owner reads it again.
        if fetch.start < owned.shard.position:
            # Read again, or the log is shorter than it was and the consumer began at its start.
            await self._log.check(owned.shard)
            if fetch.next_offset <= owned.shard.position:
                return
        self._absorb(owned, fetch)
        async with self._room:
            await self._room.wait_for(self._has_room)

    def _absorb(self, owned: OwnedShard, fetch: Fetch) -> None:
        shard, records = owned.shard, fetch.records
        if fetch.start > shard.position:
            raise ShardRefusedError(
                shard.partition,
                f"it is counted up to offset {shard.position}, but what the log has next begins at "
                f"{fetch.start}; if records were deleted before they were counted, "
                "`tally accept-log` goes on with what is there",
            )
        decoded = decode(records)
        columns, refused = decoded.columns, decoded.refused
        offsets, timestamps_ms = records.offsets, records.timestamps_ms
        rules, bad_rules = _rules(decoded.control)
        if fetch.start < shard.position:
            columns = columns.filter(pc.field("offset") >= pa.scalar(shard.position))
            refused = [bad for bad in refused if bad.offset >= shard.position]
            rules = [found for found in rules if found[0] >= shard.position]
            first = int(np.searchsorted(offsets, shard.position))
            offsets, timestamps_ms = offsets[first:], timestamps_ms[first:]
        if columns.num_rows <= FEW_ROWS:
            log_times = list(zip(offsets.tolist(), timestamps_ms.tolist(), strict=True))
            misplaced = shard.absorb_rows(_rows(columns), log_times, rules, fetch.next_offset)
        else:
            misplaced = shard.absorb_columns(
                columns, offsets, timestamps_ms, rules, fetch.next_offset
            )
        shard.last_batch = fetch.last_batch or shard.last_batch
        owned.dead_letters.extend(dead_letters(fetch, [*refused, *bad_rules], misplaced))
        self._unflushed_rows += columns.num_rows

    def _has_room(self) -> bool:
        letters = sum(len(owned.dead_letters) for owned in self._checkpointer.owned.values())
        return self._unflushed_rows < MAX_UNFLUSHED_ROWS and letters < MAX_DEAD_LETTERS

    async def pulse(self) -> None:
        """Flush and checkpoint at their intervals, for ever.

        A server that is away or refuses is asked again with growing pauses; meanwhile counting goes
        on until there is no room. Anything else that is raised is a bug and ends the worker.
        """
        checkpointed_s = self._clock.monotonic_s()
        pause_s = self._settings.flush_interval_s
        while True:
            await asyncio.sleep(pause_s)
            age_s = self._clock.monotonic_s() - checkpointed_s
            due = self._checkpoint_now or age_s >= self._settings.checkpoint_interval_s
            rows = self._unflushed_rows
            try:
                # Every server has time-outs of its own; what takes longer than all of them hangs,
                # and a hung worker is worth less than one that starts anew.
                async with asyncio.timeout(STUCK_S):
                    async with self.writing:
                        await self._write(checkpoint=due)
                    if due:
                        await self._unstall()
            except TallyError as error:
                pause_s = min(max(pause_s, self._settings.flush_interval_s) * 2, _BACKOFF_S_MAX)
                log.warning("%s; trying again in %.0f s", error, pause_s)
                continue
            pause_s = self._settings.flush_interval_s
            if due:
                self._checkpoint_now = False
                checkpointed_s = self._clock.monotonic_s()
            async with self._room:
                self._unflushed_rows = max(0, self._unflushed_rows - rows)
                self._room.notify_all()

    async def _write(self, *, checkpoint: bool) -> None:
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

    async def finish(self) -> None:
        """A last checkpoint before a clean stop, so that the next start re-reads nothing."""
        try:
            async with self.writing:
                await self._checkpointer.checkpoint()
        except TallyError as error:
            log.warning("stopping without a last checkpoint, the next start reads on: %s", error)


def _rows(columns: pa.Table) -> list[Row]:
    names = ("offset", "row", "counter", "region", "at", "delta", "id")
    return list(map(Row._make, zip(*(columns[name].to_pylist() for name in names), strict=True)))


def _rules(
    control: list[Control],
) -> tuple[list[tuple[int, CountingRules]], list[Refused]]:
    """The rules records among control records by offset, and those that cannot be read."""
    rules, refused = [], []
    for record in control:
        if record.kind == RULES_KIND:
            try:
                rules.append((record.offset, parse_rules(record.value or b"")))
            except BadInputError as error:
                refused.append(Refused(record.offset, 0, str(error), record.value or b""))
    return rules, refused
