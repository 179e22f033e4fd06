"""Bounds that are reached as a program has them: by its settings, and by what it makes without one.

Their own tests use smaller ones, which are given to what they test.
"""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipeline.checkpoint import Checkpointer, OwnedShard
from pipeline.fetches import Fetch
from pipeline.group import Group
from pipeline.refused import PLACES_MAX
from pipeline.shard import Shard
from pipeline.slots import SLOT_MS
from pipeline.worker import Worker
from pipeline.writes.pace import Pace
from pipeline.writes.pulse import Pulse
from pipeline.writes.room import DEAD_LETTERS_MAX, Room
from schemas.settings import load_settings
from tests.kit.clocks import ManualClock
from tests.unit.test_pulse import Servers
from tests.unit.test_refused import BAD, GOOD, T0, fetch
from tests.unit.web.world import settled

GENERATION = 1
SLOTS = 20


class Counting:
    """A worker that counts one shard and writes it, put together as the topology does."""

    def __init__(self) -> None:
        clock, servers, settings = ManualClock(), Servers(), load_settings()
        self.shard = Shard(0)
        checkpointer = Checkpointer(servers, servers, servers.commit, clock)
        checkpointer.owned[0] = OwnedShard(self.shard, committed=0, writer=GENERATION)
        checkpointer.generation = GENERATION
        self.room = Room(settings.unflushed_rows_max, checkpointer.unwritten_letters, clock)
        self._pulse = Pulse(
            checkpointer,
            cast("Group", servers),
            self.room,
            Pace(clock, settings.flush_interval_s, settings.checkpoint_interval_s),
            check_first=servers.check_first,
        )
        following = SimpleNamespace(is_retired=False, is_live=lambda: True)
        log = SimpleNamespace(check=_is_whole)
        self._worker = Worker(checkpointer, cast("Any", log), self.room, cast("Any", following))

    async def reading(self, fetches: Iterator[Fetch]) -> "asyncio.Task[None]":
        """A reader of these that has had every chance to go on."""

        async def read() -> None:
            for one in fetches:
                await self._worker.count(one, GENERATION)

        reader = asyncio.ensure_future(read())
        await settled()
        return reader

    async def checkpoint(self) -> None:
        """Once, as a pulse does; whoever waits for room goes on if there is."""
        self._pulse.on_taken_over()
        await self._pulse.beat()
        await settled()


async def _is_whole(_shard: Shard) -> None: ...


async def test_no_more_slots_are_in_memory_than_increments_that_are_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has one at least. All but the open one leave when they are written."""
    monkeypatch.setenv("TALLY_UNFLUSHED_ROWS_MAX", str(SLOTS))
    counting = Counting()
    minutes = (fetch(n, (GOOD, ()), at_ms=T0 + n * SLOT_MS) for n in range(3 * SLOTS + 1))
    reader = await counting.reading(minutes)
    assert (len(counting.shard.slots), counting.room.rows) == (SLOTS, SLOTS)
    await counting.checkpoint()
    for _ in range(2):
        assert (len(counting.shard.slots), counting.room.rows) == (1 + SLOTS, SLOTS)
        assert not reader.done()
        await counting.checkpoint()
    await reader
    assert len(counting.shard.slots) == 2


async def test_reading_waits_at_the_bound_of_dead_letters_that_a_worker_has() -> None:
    counting = Counting()
    most = DEAD_LETTERS_MAX - 1
    reader = await counting.reading(iter([fetch(0, *[(BAD, ())] * most), fetch(most, (BAD, ()))]))
    assert (counting.shard.position, reader.done()) == (DEAD_LETTERS_MAX, False)
    assert counting.room.lacks_dead_letters()
    await counting.checkpoint()
    await asyncio.wait_for(reader, 5)


def test_a_shard_remembers_only_so_many_refused_places() -> None:
    shard = Shard(0)
    for offset in range(PLACES_MAX + 3):
        shard.refused.refuse((offset, 0, T0))
    assert len(shard.refused) == PLACES_MAX
    assert shard.refused.first_place() == (3, 0)
