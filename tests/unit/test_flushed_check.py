"""What ClickHouse was told of a log, held against that log."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pipeline.builds.positions import Reached
from pipeline.checkpoint import OwnedShard
from pipeline.errors import ShardRefusedError
from pipeline.flushed_check import FlushedCheck
from pipeline.log_check import RecoveryReader
from pipeline.shard import BatchMark, Shard
from schemas.addresses import ClickHouseAddress

FLUSHED_MS = 1_700_000_000_000
MARK = BatchMark(1, 7, FLUSHED_MS)


class Log:
    """Offsets with the time of the record there; Kafka also knows the times of what is no record,
    such as the ends of transactions, which are `hidden`."""

    def __init__(self, times_ms: list[int], hidden: frozenset[int] = frozenset()) -> None:
        self.times_ms = times_ms
        self._hidden = hidden

    async def ends(self, _topic: str, _partition: int) -> tuple[int, int]:
        return 0, len(self.times_ms)

    async def offset_at(self, _topic: str, _partition: int, at_ms: int) -> int | None:
        return next((at for at, time_ms in enumerate(self.times_ms) if time_ms >= at_ms), None)

    async def fetch(self, _topic: str, _partition: int, offset: int) -> Any:
        """Two offsets at a time."""
        end = min(offset + 2, len(self.times_ms))
        offsets = [at for at in range(offset, end) if at not in self._hidden]
        records = SimpleNamespace(
            offsets=np.array(offsets, np.int64),
            timestamps_ms=np.array([self.times_ms[at] for at in offsets], np.int64),
        )
        return SimpleNamespace(records=records, next_offset=end)

    def reader(self) -> RecoveryReader:
        return RecoveryReader(cast("Any", self), "changelog", "increments")


def times(*later_ms: int) -> list[int]:
    return [FLUSHED_MS + later for later in later_ms]


async def test_what_came_after_what_was_flushed_may_be_younger() -> None:
    log = Log(times(-2, -1, 0, 0, 5, 6)).reader()
    await log.check_flushed(Shard(0), 3, FLUSHED_MS)
    with pytest.raises(ShardRefusedError, match=r"from offset 4 to 4 .* they are younger"):
        await log.check_flushed(Shard(0), 4, FLUSHED_MS)
    with pytest.raises(ShardRefusedError, match="up to offset 6, but its log now ends at 6"):
        await log.check_flushed(Shard(0), 6, FLUSHED_MS + 6)


async def test_what_no_worker_reads_is_no_younger_record() -> None:
    """Though the clock of who wrote it was ahead, and records that were counted came after it."""
    log = Log(times(-2, 9, 9, 0, -1, 0, 0), hidden=frozenset({1, 2})).reader()
    await log.check_flushed(Shard(0), 5, FLUSHED_MS)
    assert await log.first_younger(0, 5, FLUSHED_MS) is None
    assert await log.first_younger(0, 5, FLUSHED_MS - 1) == 3


class Check(FlushedCheck):
    """With what ClickHouse has in the first shard."""

    def __init__(self, log: Log, found: Reached | None) -> None:
        super().__init__(ClickHouseAddress("http://127.0.0.1:1"), 1, log.reader())
        self._found = found

    def _flushed(self) -> dict[int, Reached]:
        return {} if self._found is None else {0: self._found}

    async def ask(self, *, incarnation: int = 0) -> None:
        shard = Shard(0, 2, incarnation=incarnation, last_batch=MARK)
        await self([OwnedShard(shard, committed=2, writer=1)])


async def test_only_what_was_flushed_and_not_checkpointed_under_this_incarnation_is_asked_for() -> (
    None
):
    log = Log(times(0, 0))
    await Check(log, None).ask()
    await Check(log, Reached(1, FLUSHED_MS)).ask()
    await Check(log, Reached(1, FLUSHED_MS - 1)).ask()
    await Check(log, Reached(9, FLUSHED_MS)).ask(incarnation=1)
    with pytest.raises(ShardRefusedError, match="its log now ends at 2"):
        await Check(log, Reached(2, FLUSHED_MS)).ask()


async def test_an_incarnation_that_the_changelog_does_not_know_is_told() -> None:
    """It was begun by `tally accept-log`, and going on with the one before would hide it."""
    with pytest.raises(ShardRefusedError, match=r"incarnation 1 .* changelog .* accept-log"):
        await Check(Log(times(0, 0)), Reached(1, FLUSHED_MS, incarnation=1)).ask()


async def test_an_accepted_log_that_loses_more_before_anything_of_it_is_counted_is_refused() -> (
    None
):
    """It had grown past the position, and what was in the place of what had been lost before that
    was never counted. No batch is there to tell; the worker may have counted one by now."""
    lost = Check(Log(times(-1, 0, 5000, 5001, 5002)), Reached(3, FLUSHED_MS, 1))
    owned = OwnedShard(Shard(0, 4, incarnation=1), committed=4, writer=1)
    owned.shard.last_batch = BatchMark(4, 7, FLUSHED_MS + 5002)
    with pytest.raises(ShardRefusedError, match=r"from offset 2 to 3 .* they are younger"):
        await lost([owned])
    same = Check(Log(times(-1, 0, 0, 0, 5002)), Reached(3, FLUSHED_MS, 1))
    await same([owned])


async def test_a_shard_that_began_in_the_middle_of_a_log_and_counted_nothing_is_not_refused() -> (
    None
):
    """Its position row has no log time yet."""

    class Trimmed(Log):
        async def ends(self, _topic: str, _partition: int) -> tuple[int, int]:
            return 4, len(self.times_ms)

        async def offset_at(self, topic: str, partition: int, at_ms: int) -> int | None:
            found = await super().offset_at(topic, partition, at_ms)
            return None if found is None else max(found, 4)

    log = Trimmed(times(0, 0, 0, 0, 0))
    await Check(log, Reached(3, 0))([OwnedShard(Shard(0, 4), committed=4, writer=1)])
    empty = Log([])
    await Check(empty, Reached(-1, 0))([OwnedShard(Shard(0, 0), committed=0, writer=1)])
