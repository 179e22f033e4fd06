"""A worker of the simulated world: the real checkpointer and take-over, step by step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pyarrow as pa

from pipeline import takeover
from pipeline.checkpoint import Checkpointer
from pipeline.errors import TallyError, TryAgainError
from pipeline.recovery import RecoveredShard
from pipeline.shard import BatchMark, Row
from tests.simulation.world import Clock, Doors, Operation, World, asking

SOME_BATCH = BatchMark(0, 0, 0)
READ_RECORDS = 7
"""How many changelog offsets one read covers."""


class SimWorker:
    """One process. It does one thing at a time, and may be stopped or killed between any two.

    With `by_columns` it counts as workers do with large fetches.
    """

    def __init__(self, number: int, world: World, batch_records: int) -> None:
        self.number = number
        self.world = world
        self.doors = Doors(world, batch_records)
        self.checkpointer = Checkpointer(self.doors, self.doors, self.doors.commit, Clock())
        self.alive = True
        self.by_columns = False
        self.stopped = False
        self.noticed = True
        self.pending: Operation[Any] | None = None
        self.ends_at_notice = dict(world.changelog.ends)
        self._task: Coroutine[Any, Any, None] | None = None

    @property
    def idle(self) -> bool:
        return self._task is None

    def start(self, task: Coroutine[Any, Any, None]) -> None:
        """Begin something; it runs up to the first operation."""
        self._task = task
        self._resume(task.send, None)

    def answer(self, result: Any) -> None:
        """The pending operation is confirmed with its result."""
        self._resume(self._running().send, result)

    def fail(self) -> None:
        """The pending operation gets no answer."""
        self._resume(self._running().throw, TryAgainError)

    def die(self) -> None:
        """Kill the process: what it had in memory is gone."""
        self.alive = False
        if self._task is not None:
            self._task.close()
        self._task = self.pending = None

    def notice_rebalance(self) -> None:
        """The group is rebalancing: let go of everything at once, whatever is under way."""
        self.checkpointer.disown()
        self.noticed = True
        self.start_recovery_when_idle()

    def start_recovery_when_idle(self) -> None:
        if self.idle and self.alive:
            self.start(self.recover())

    async def recover(self) -> None:
        """What Faust and the store do after an assignment, then the real take-over."""
        group, changelog = self.world.group, self.world.changelog
        generation = group.generation
        partitions = sorted(p for p, owner in group.owners.items() if owner == self.number)
        recovered = []
        ends = await asking("highwaters", lambda: [self.highwater(p) for p in partitions])
        for partition, end in zip(partitions, ends, strict=True):
            found = RecoveredShard(partition)
            for start in range(0, end, READ_RECORDS):
                stop = min(start + READ_RECORDS, end)
                records = await asking("read", partial(changelog.read, partition, start, stop))
                found.add(start, stop, records)
            recovered.append(found)
        await takeover.take_over(
            recovered,
            generation,
            self.checkpointer,
            offsets=self.doors,
            changelog=self.doors,
            log=self.doors,
            control=self.doors,
            plan=self.doors,
        )

    def highwater(self, partition: int) -> int:
        """Where Faust stops reading a changelog."""
        return self.world.changelog.ends.get(partition, 0)

    def fetch(self, partition: int, count: int) -> None:
        """Count the next records of an owned partition."""
        shard = self.checkpointer.owned[partition].shard
        log, start = self.world.log, shard.position
        end = min(start + count, len(log.partitions[partition]))
        if end == start:
            return
        rows, fetched = log.rows(partition, start, end), log.fetched(partition, start, end)
        if self.by_columns and not fetched.retries:
            misplaced = shard.absorb_columns(columns_of(rows), fetched)
        else:
            misplaced = shard.absorb_rows(rows, fetched)
        shard.last_batch = SOME_BATCH
        strays = self.world.misplaced.setdefault(partition, set())
        strays.update((partition, *place) for place in fetched.refused)
        strays.update((partition, stray.offset, stray.row) for stray in misplaced)

    def _running(self) -> Coroutine[Any, Any, None]:
        assert self._task is not None
        return self._task

    def _resume(self, go: Callable[[Any], Operation[Any]], told: Any) -> None:
        try:
            self.pending = go(told)
        except StopIteration:
            self._task = self.pending = None
        except TryAgainError:
            self._task = self.pending = None
            if not self.checkpointer.owned:
                self.die()  # In recovery the process ends, and is started anew.
        except TallyError as error:
            self.world.refusals.append(str(error))
            self._task = None
            self.die()


def columns_of(rows: list[Row]) -> pa.Table:
    """Rows as the decoder would give them."""
    return pa.table(
        {
            "offset": pa.array([row.offset for row in rows], pa.int64()),
            "row": pa.array([row.row for row in rows], pa.int32()),
            "counter": pa.array([row.counter for row in rows], pa.string()),
            "region": pa.array([row.region for row in rows], pa.string()),
            "at": pa.array([row.at_ms for row in rows], pa.int64()),
            "delta": pa.array([row.delta for row in rows], pa.int64()),
            "id": pa.array([row.id for row in rows], pa.string()),
            "member": pa.array([row.member for row in rows], pa.string()),
        }
    )
