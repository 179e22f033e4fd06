"""A decider that ends in order leaves nothing behind that nobody can read, one that was replaced
commits nothing, and one that cannot flush any more does not go on in silence."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

from pipeline.errors import ShardRefusedError, TryAgainError
from pipeline.fenced_commits import commit_in
from pipeline.metrics.meter import UNMEASURED
from pipeline.strict import session as session_module
from pipeline.strict.changelog import read_state
from pipeline.strict.decider import Decider
from pipeline.strict.owned import OwnedPartition
from pipeline.strict.session import Rebalances, Session
from pipeline.strict.state import id_digest
from pipeline.strict.values import Value, ValueFlusher
from schemas.settings import load_settings
from tests.kit.clocks import ManualClock
from tests.unit.strict.test_values import Stored

VALUE = Value("stock:shoes", 0, 7, 3, 1_700_000_000_000)


@pytest.fixture
def stored() -> Stored:
    return Stored()


async def ended(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is stopped with a value that waits, and its decider's forgetting after it."""
    values = ValueFlusher(load_settings(), ManualClock(), UNMEASURED)
    monkeypatch.setattr(values, "_inserter", stored)
    values.own({0})
    values.add([VALUE])
    nobody = cast("Any", None)
    session = Session(
        nobody, nobody, nobody, 1, values=values, clock=ManualClock(), meter=UNMEASURED
    )
    stopped = asyncio.Event()
    stopped.set()
    await session.run(Rebalances(), stopped)
    values.own(())


async def test_what_was_decided_last_is_flushed_before_it_is_forgotten(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ended(stored, monkeypatch)
    assert [table for table, _ in stored.rows] == ["strict_values", "strict_flushes"]
    assert stored.rows[0][1][0]["value"] == 7


async def test_a_clickhouse_that_is_away_or_hangs_keeps_no_decider_from_ending(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.away = "tally.strict_values"
    await ended(stored, monkeypatch)

    async def hangs() -> int:
        await asyncio.Event().wait()
        raise TryAgainError("never")

    monkeypatch.setattr(session_module, "LAST_FLUSH_S_MAX", 0.02)
    monkeypatch.setattr(stored, "now_ms", hangs)
    await asyncio.wait_for(ended(stored, monkeypatch), 5)
    assert stored.rows == []


class Coordinator:
    """The group, as a consumer's coordinator has it; others join while it is asked to commit."""

    def __init__(self) -> None:
        self.generation = 4
        self.committed: list[tuple[int, dict[Any, Any]]] = []
        self._commit_lock = asyncio.Lock()

    async def ensure_coordinator_known(self) -> None:
        """It is."""

    async def _do_commit_offsets(self, _: object, offsets: dict[Any, Any]) -> None:
        self.committed.append((self.generation, offsets))


async def test_nothing_is_committed_in_another_generation_than_it_was_decided_in() -> None:
    coordinator = Coordinator()
    consumer = cast("Any", SimpleNamespace(_coordinator=coordinator))
    nobody = cast("Any", None)
    session = Session(
        consumer, nobody, nobody, 1, values=nobody, clock=ManualClock(), meter=UNMEASURED
    )
    session._generation, session._next, session._committed = 4, {0: 7}, {0: 5}
    rebalances = Rebalances()
    await session._commit(rebalances)
    rebalances.changed = False
    coordinator.generation = 6
    await session._commit(rebalances)
    assert coordinator.committed == []
    assert session._committed == {0: 5}
    coordinator.generation = 4
    await session._commit(rebalances)
    [(generation, offsets)] = coordinator.committed
    assert generation == 4
    assert {tp.partition: found.offset for tp, found in offsets.items()} == {0: 7}
    assert session._committed == {0: 7}


async def test_commands_that_were_deleted_before_their_turn_are_not_passed_over_in_silence() -> (
    None
):
    """A consumer does, and goes on where the log begins now."""

    class Reader:
        """Of a log that begins at 6."""

        async def ends(self, _topic: str, _partition: int) -> tuple[int, int]:
            return 6, 20

    nobody = cast("Any", None)
    session = Session(
        nobody,
        nobody,
        cast("Any", Reader()),
        1,
        values=nobody,
        clock=ManualClock(),
        meter=UNMEASURED,
    )

    def fetched(offset: int) -> Any:
        return {TopicPartition("tally.strict", 0): [SimpleNamespace(offset=offset)]}

    session._next = {0: 6}
    await session._check_unbroken(fetched(6))
    await session._check_unbroken(fetched(8))  # the end of a transaction is between
    session._next = {0: 4}
    with pytest.raises(ShardRefusedError, match=r"from offset 4 on was deleted.* begins at 6 now"):
        await session._check_unbroken(fetched(6))
    await session._check_unbroken({TopicPartition("tally.strict", 9): fetched(3).popitem()[1]})


async def test_what_ends_a_partition_and_is_no_command_is_passed() -> None:
    """Ends of transactions stayed undecided, and were missed when the log had deleted them."""

    class Consumer:
        """It has read partition 0 up to 7, looks for its place in 1, and does not have 2."""

        async def position(self, tp: TopicPartition) -> int:
            if tp.partition == 1:
                await asyncio.Event().wait()
            if tp.partition == 2:
                raise IllegalStateError
            return 7

    start = 0

    class Reader:
        async def ends(self, _topic: str, _partition: int) -> tuple[int, int]:
            return start, 7

    nobody = cast("Any", None)
    session = Session(
        cast("Any", Consumer()),
        nobody,
        cast("Any", Reader()),
        3,
        values=nobody,
        clock=ManualClock(),
        meter=UNMEASURED,
    )
    session._next = {0: 6, 1: 3, 2: 5}
    await session._move_on()
    assert session._next == {0: 7, 1: 3, 2: 5}
    session._next, start = {0: 4}, 7
    with pytest.raises(ShardRefusedError, match=r"from offset 4 on was deleted.* begins at 7 now"):
        await session._move_on()


async def test_nothing_is_committed_by_who_is_in_no_generation() -> None:
    """Kafka would take it, while the group has no members."""
    coordinator = Coordinator()
    coordinator.generation = -1
    consumer = cast("Any", SimpleNamespace(_coordinator=coordinator))
    assert not await commit_in(consumer, {("t", 0): 7}, -1)
    assert coordinator.committed == []


async def test_a_bug_in_flushing_ends_the_decider(monkeypatch: pytest.MonkeyPatch) -> None:
    decider = Decider(load_settings(), ManualClock(), UNMEASURED)

    async def breaks() -> None:
        raise ZeroDivisionError

    async def decides() -> float:
        await asyncio.Event().wait()
        return 0.0

    monkeypatch.setattr(decider._values, "run", breaks)
    monkeypatch.setattr(decider, "_session_or_pause", decides)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(decider.run(), 5)


class Backlog:
    """A consumer of so many increments to one counter, all of which may be fetched at once."""

    def __init__(self, commands: int, stopped: asyncio.Event) -> None:
        self._coordinator = Coordinator()
        self._next, self._end = 0, commands
        self._stopped = stopped

    async def getmany(self, *, timeout_ms: int, max_records: int) -> dict[TopicPartition, Any]:
        del timeout_ms
        start, self._next = self._next, min(self._next + max_records, self._end)
        if self._next == self._end:
            self._stopped.set()
        ids = [f"id {offset}" for offset in range(start, self._next)]
        values = [
            b'{"id": "%s", "counter": "stock:a", "op": "increment"}' % i.encode() for i in ids
        ]
        return {
            TopicPartition("tally.strict", 0): [
                SimpleNamespace(offset=start + n, timestamp=0, value=value)
                for n, value in enumerate(values)
            ]
        }

    async def position(self, _tp: TopicPartition) -> int:
        return self._next

    def assignment(self) -> set[TopicPartition]:
        return set()


async def _at_once() -> None: ...


async def test_so_many_commands_are_decided_at_once_that_each_answer_is_in_the_changelog() -> None:
    """A counter that remembers as few ids as it may would have forgotten others in between."""
    sent, stopped = 2 * session_module.BATCH_MAX + 1, asyncio.Event()
    written: list[set[bytes]] = []

    class Writer:
        async def append(self, _partition: int, records: list[tuple[bytes, bytes]]) -> None:
            written.extend(set(read_state(value).ids) for _, value in records)

    stored: Any = SimpleNamespace(add=lambda _values: None, flush=_at_once)
    session = Session(
        cast("Any", Backlog(sent, stopped)),
        cast("Any", Writer()),
        cast("Any", None),
        1,
        values=stored,
        clock=ManualClock(),
        meter=UNMEASURED,
    )
    session._owned = {0: OwnedPartition(0, 1, b"12345678")}
    session._next, session._committed, session._generation = {0: 0}, {0: 0}, 4
    rebalances = Rebalances()
    rebalances.changed = False
    await session.run(rebalances, stopped)
    assert len(written) == 3
    assert set().union(*written) == {id_digest(f"id {offset}") for offset in range(sent)}
