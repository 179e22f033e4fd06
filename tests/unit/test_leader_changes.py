"""A log that loses its end under a worker that goes on reading: what is read next looks whole."""

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pipeline.checkpoint import OwnedShard
from pipeline.draining import drain
from pipeline.errors import ShardRefusedError, TryAgainError
from pipeline.fetches import Fetch, cut_after
from pipeline.shard import Shard
from pipeline.worker import Worker
from schemas.records import Records
from tests.kit.fetch_results import PLACE, batch_of, result_of

GENERATION = 3
NOW_MS = 1_700_000_000_000


class Log:
    """Says of the log what it is told to, one answer at a time."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = [*answers]
        self.checked: list[int] = []

    async def check(self, shard: Shard) -> None:
        self.checked.append(shard.position)
        if self.answers and (answer := self.answers.pop(0)) is not None:
            raise answer


class Counting:
    """A worker that owns one shard, with room for all of it."""

    def __init__(self, *answers: Exception | None) -> None:
        self.log = Log(*answers)
        self.shard = Shard(0)
        owned = {0: OwnedShard(self.shard, committed=0, writer=GENERATION)}
        room = SimpleNamespace(take=lambda *_, **__: None, wait=_at_once)
        following = SimpleNamespace(is_retired=False, is_live=lambda: True)
        self._checkpointer = SimpleNamespace(owned=owned, generation=GENERATION)
        self._worker = Worker(
            cast("Any", self._checkpointer),
            cast("Any", self.log),
            cast("Any", room),
            cast("Any", following),
        )

    def give_away(self) -> None:
        self._checkpointer.owned = {}
        self._checkpointer.generation += 1

    async def read(self, end: int, epochs: tuple[int, int] | None) -> None:
        await self._worker.count(fetch(self.shard.position, end, epochs), GENERATION)


async def _at_once() -> None: ...


def fetch(start: int, end: int, epochs: tuple[int, int] | None) -> Fetch:
    offsets = np.arange(start, end, dtype=np.int64)
    values = [b'{"counter": "likes:a"}'] * len(offsets)
    none: list[Any] = [None] * len(offsets)
    records = Records(0, offsets, NOW_MS + offsets, none, values, [()] * len(offsets))
    return Fetch(start, end, records, epochs=epochs)


async def test_the_log_is_looked_at_when_another_leader_has_taken_what_comes_next() -> None:
    counting = Counting()
    for end, epochs in [(2, (4, 4)), (3, (4, 4)), (5, (4, 5)), (6, (5, 5)), (7, None), (8, (6, 6))]:
        await counting.read(end, epochs)
    assert counting.log.checked == [0, 7], "after the take-over, and where 6 follows 5"


async def test_what_came_in_the_place_of_what_was_lost_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody looked: what the log had got before the position was never counted."""
    monkeypatch.setattr("pipeline.worker._ASK_AGAIN_S", 0.01)
    refused = ShardRefusedError(0, "another record batch")
    counting = Counting(None, TryAgainError("away"), refused)
    await counting.read(150, (0, 0))
    with pytest.raises(ShardRefusedError):
        await counting.read(200, (1, 1))
    assert counting.shard.position == 150
    assert counting.log.checked == [0, 150, 150]


async def test_a_log_that_cannot_be_looked_at_is_told_of_and_waited_for_within_bounds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All partitions wait with it: they did so without a word, and for ever."""
    monkeypatch.setattr("pipeline.worker._ASK_AGAIN_S", 0.01)
    monkeypatch.setattr("pipeline.worker._LOOK_TIMEOUT_S", 0.1)
    away = TryAgainError("partition 0 has no leader")
    counting = Counting(away, away, None, *[away] * 1_000)
    await counting.read(2, (4, 4))
    assert [one.message for one in caplog.records] == [
        "reading waits to look at the log of shard 0: partition 0 has no leader",
        "the log of shard 0 is there again; reading goes on",
    ]
    with pytest.raises(TryAgainError, match="no leader"):
        await counting.read(4, (5, 5))
    assert counting.shard.position == 2


async def test_a_shard_that_is_given_away_while_its_log_is_looked_at_counts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeline.worker._ASK_AGAIN_S", 0.01)
    counting = Counting(*[TryAgainError("away")] * 1_000)
    reading = asyncio.create_task(counting.read(2, (4, 4)))
    await asyncio.sleep(0.05)
    counting.give_away()
    await reading
    assert counting.shard.position == 0


def test_pieces_of_a_fetch_have_its_leaders() -> None:
    before, after = cut_after(fetch(0, 9, (4, 6)), 3)
    assert (before.epochs, after.epochs) == ((4, 6), (6, 6))
    assert cut_after(fetch(0, 9, None), 3)[1].epochs is None


async def test_leaders_are_known_by_the_batches_that_they_took() -> None:
    def taken(base_offset: int, epoch: int) -> bytes:
        batch = batch_of(base_offset, b"{}", b"{}")
        return batch[:12] + struct.pack(">i", epoch) + batch[16:]

    raw = taken(0, 4) + taken(2, 4) + taken(4, 7)
    found = drain(result_of(raw), PLACE)
    assert found is not None
    assert found.epochs == (4, 7)
    found = drain(result_of(b""), PLACE)
    assert found is None or found.epochs is None
