"""The pulse of a worker: what it does when servers are away, slow, refuse, or hang."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import pytest

from pipeline.changelog import ChangelogRecord
from pipeline.checkpoint import Checkpointer, Freshness, OwnedShard, Position
from pipeline.dead_letters import DeadLetter
from pipeline.errors import ShardRefusedError, TallyError, TryAgainError
from pipeline.group import Group
from pipeline.shard import ShardSnapshot
from pipeline.writes import pulse as pulse_module
from pipeline.writes.pace import Pace
from pipeline.writes.pulse import Pulse
from pipeline.writes.room import Room
from tests.kit.clocks import ManualClock
from tests.unit.test_sink import shard

REFUSED = DeadLetter(0, 7, -1, 0, "ClickHouse refused this cell", b"{}", 2)


class Servers:
    """A Sink, a Changelog, a Commit and offsets that keep a diary; the next steps may fail."""

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.letters: list[DeadLetter] = []
        self.failures: list[TallyError] = []
        self.refused: list[DeadLetter] = []
        self.fetched: dict[int, int] = {}
        self.asked, self.position_s = asyncio.Event(), 0.0
        self.blocks = 1
        self.block_s = 0.0
        self.pulse: Pulse | None = None
        self.unwanted: TallyError | None = None
        self.checks = 0

    async def check_first(self, shards: Sequence[OwnedShard]) -> None:
        assert [one.shard.partition for one in shards] == [0]
        if self.unwanted is not None:
            raise self.unwanted
        self.checks += 1

    async def write_cells(self, snapshots: Sequence[ShardSnapshot]) -> list[DeadLetter]:
        if self.failures:
            raise self.failures.pop(0)
        for _ in range(self.blocks):
            await asyncio.sleep(self.block_s)
            if self.pulse is not None:
                self.pulse.on_progress()
        self.diary.append(f"{sum(s.unflushed for s in snapshots)} cells")
        return self.refused

    async def write_summaries(self, snapshots: Sequence[ShardSnapshot]) -> list[DeadLetter]:
        assert all(not snapshot.sketches for snapshot in snapshots)
        return []

    async def write_positions(self, positions: Sequence[Position]) -> None:
        self.diary.append(f"{len(positions)} positions")

    async def write_freshness(self, samples: Sequence[Freshness]) -> None: ...

    async def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None: ...

    async def append(self, partition: int, records: Iterable[ChangelogRecord]) -> None:
        self.diary.append(f"{len(list(records))} to changelog {partition}")

    async def append_each(self, parts: Iterable[tuple[int, Iterable[ChangelogRecord]]]) -> None:
        for partition, records in parts:
            await self.append(partition, records)

    async def append_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        self.letters += letters
        self.diary.append(f"{len(self.letters)} letters")

    async def commit(self, positions: Mapping[int, int], generation: int) -> bool:
        self.diary.append(f"commit {dict(positions)} in {generation}")
        return True

    async def position(self, partition: int) -> int | None:
        self.asked.set()
        await asyncio.sleep(self.position_s)
        return self.fetched.get(partition)


class Worker:
    """A pulse with one dirty cell and ten unflushed rows."""

    def __init__(self) -> None:
        self.clock, self.servers = ManualClock(), Servers()
        servers = self.servers
        self.checkpointer = Checkpointer(servers, servers, servers.commit, self.clock)
        dirty = shard(0, ("likes:a", "", 1, 0))
        dirty.position = 8
        self.owned = OwnedShard(dirty, committed=0, writer=1)
        self.checkpointer.owned[0] = self.owned
        self.room = Room(10, self.checkpointer.unwritten_letters, self.clock, dead_letters_max=2)
        self.pace = Pace(self.clock, 1.0, 5.0)
        group = cast("Group", servers)  # of which a pulse asks for positions alone
        self.pulse = servers.pulse = Pulse(
            self.checkpointer, group, self.room, self.pace, check_first=servers.check_first
        )
        self.room.take(10)


@pytest.fixture
def worker() -> Worker:
    return Worker()


async def test_a_flush_that_succeeds_makes_room(worker: Worker) -> None:
    await worker.pulse.beat()
    assert worker.servers.diary == ["1 cells", "1 positions"]
    assert worker.room.rows == 0


async def test_shards_are_looked_at_before_they_are_first_flushed_and_not_again(
    worker: Worker,
) -> None:
    worker.servers.unwanted = TryAgainError("away")
    await worker.pulse.beat()
    assert (worker.servers.diary, worker.servers.checks) == ([], 0)
    worker.servers.unwanted = None
    await worker.pulse.beat()
    await worker.pulse.beat()
    await worker.pulse.finish()
    assert worker.servers.checks == 1
    assert worker.servers.diary[:2] == ["1 cells", "1 positions"]


async def test_a_shard_that_must_not_be_flushed_ends_the_worker_and_nothing_is_written(
    worker: Worker,
) -> None:
    """Also not on the way out."""
    worker.servers.unwanted = ShardRefusedError(0, "its log is another one")
    with pytest.raises(ShardRefusedError):
        await worker.pulse.run()
    await worker.pulse.finish()
    assert worker.servers.diary == []
    assert worker.checkpointer.owned == {}


async def test_a_flush_that_fails_keeps_what_there_is_and_backs_off_until_it_succeeds(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    reading = asyncio.ensure_future(worker.room.wait())
    worker.servers.failures = [TryAgainError("away"), TryAgainError("still away")]
    await worker.pulse.beat()
    assert (worker.room.rows, worker.pace.pause_s) == (10, 2.0)
    await worker.pulse.beat()
    assert not reading.done()
    await worker.pulse.beat()
    await asyncio.wait_for(reading, 5)
    assert (worker.room.rows, worker.pace.pause_s) == (0, 1.0)
    assert worker.servers.diary == ["1 cells", "1 positions"]
    told = [
        record.getMessage() for record in caplog.records if record.name == "pipeline.writes.pulse"
    ]
    assert told == [
        "away; trying again in 2.0 s",
        "still away; trying again in 4.0 s",
        "writing goes on after 2 failures",
    ]


async def test_a_refused_cell_is_flushed_as_far_as_slots_go_and_its_letter_waits(
    worker: Worker,
) -> None:
    worker.servers.refused = [REFUSED]
    await worker.pulse.beat()
    assert worker.owned.shard.snapshot(checkpoint=False).unflushed == 0
    assert worker.owned.dead_letters == [REFUSED]


async def test_the_letter_of_a_refused_cell_is_written_before_the_commit_that_covers_it(
    worker: Worker,
) -> None:
    newer = DeadLetter(0, 9, 0, 0, "not JSON", b"", 0)
    worker.servers.refused = [REFUSED]
    worker.servers.block_s = 0.01
    worker.pace.checkpoint_soon()
    beat = asyncio.ensure_future(worker.pulse.beat())
    await asyncio.sleep(0)
    worker.owned.dead_letters.append(newer)
    await beat
    assert worker.servers.letters == [REFUSED]
    assert worker.owned.dead_letters == [newer], "it came after the snapshot"
    diary = worker.servers.diary
    assert diary.index("1 letters") < diary.index("commit {0: 8} in -1")


async def test_waiting_dead_letters_ask_for_a_checkpoint_at_once(worker: Worker) -> None:
    worker.owned.dead_letters += [REFUSED, REFUSED]
    await worker.pulse.beat()
    assert "commit {0: 8} in -1" in worker.servers.diary
    assert worker.owned.dead_letters == []


async def test_a_write_that_hangs_ends_the_worker(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse_module, "STUCK_S", 0.1)
    worker.servers.block_s = 60
    with pytest.raises(TimeoutError):
        await worker.pulse.beat()


async def test_a_long_write_that_goes_on_does_not_hang(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse_module, "STUCK_S", 2.0)
    worker.servers.blocks, worker.servers.block_s = 6, 0.4
    await worker.pulse.beat()
    assert worker.room.rows == 0


async def test_a_long_write_is_given_up_when_the_group_rebalances(worker: Worker) -> None:
    worker.servers.blocks, worker.servers.block_s = 1000, 0.01
    worker.checkpointer.generation = 3
    beat = asyncio.ensure_future(worker.pulse.beat())
    await asyncio.sleep(0.05)
    worker.checkpointer.disown()
    await asyncio.wait_for(beat, 5)
    assert worker.servers.diary == []
    assert not worker.pulse.writing.locked()


async def test_a_stop_does_not_wait_for_ever_for_its_last_checkpoint(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pulse_module, "FINISH_S", 0.1)
    worker.servers.block_s = 60
    await worker.pulse.finish()
    assert worker.checkpointer.owned == {}
    assert "without a last checkpoint" in caplog.text


async def test_a_stop_right_after_a_checkpoint_writes_a_last_one(worker: Worker) -> None:
    """It raised, so that what else a stop ends was not ended, and why it stopped was not told."""
    worker.servers.position_s = 60
    worker.pace.checkpoint_soon()
    beat = asyncio.ensure_future(worker.pulse.beat())
    await asyncio.wait_for(worker.servers.asked.wait(), 5)
    await worker.pulse.finish()
    beat.cancel()
    assert worker.servers.diary.count("1 positions") == 2
    assert worker.checkpointer.owned == {}


async def test_a_pause_ends_when_reading_waits_for_room(worker: Worker) -> None:
    worker.pace.pause_s = 3600.0
    running = asyncio.ensure_future(worker.pulse.run())
    await asyncio.wait_for(worker.room.wait(), 5)
    running.cancel()
    assert worker.servers.diary == ["1 cells", "1 positions"]


async def test_a_server_that_is_away_is_left_alone_though_reading_waits(worker: Worker) -> None:
    worker.servers.failures = [TryAgainError("away"), TryAgainError("asked too soon")]
    reading = asyncio.ensure_future(worker.room.wait())
    running = asyncio.ensure_future(worker.pulse.run())
    for _ in range(50):
        await asyncio.sleep(0)
    assert (worker.pace.failures, reading.done()) == (1, False)
    running.cancel()
    reading.cancel()
