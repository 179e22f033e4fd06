"""Where shards go on that `tally accept-log` accepts; what ends it early is told in a line."""

from typing import Any, cast

import pytest

from pipeline.builds.positions import Reached
from pipeline.changelog_writer import BrokenProducerError
from pipeline.control.accept_log import Accepted, LogAcceptor
from pipeline.control.going_on import Flushed
from pipeline.errors import TryAgainError
from pipeline.log_check import RecoveryReader
from pipeline.placing import slot_of
from pipeline.shard import BatchMark, Shard
from schemas.addresses import KafkaAddress
from tests.unit.test_flushed_check import Log

NOW_MS = 1_700_000_000_000


class Nobody:
    """Takes whatever is written, and has flushed nothing."""

    def __init__(self) -> None:
        self.told: list[Shard] = []

    async def append(self, *_: Any) -> None: ...

    async def append_dead_letters(self, *_: Any) -> None: ...

    async def letters(self, *_: Any) -> None: ...

    async def position(self, shard: Shard) -> None:
        self.told.append(shard)

    def read(self, _shard: Shard) -> Flushed:
        return Flushed(-1, {})


class Acceptor(LogAcceptor):
    """Of one partition, whose log has records of these times; no Kafka is asked."""

    def __init__(self, times_ms: list[int], counted: Reached | None) -> None:
        log = Log(times_ms)
        self.nobody = nobody = cast("Any", Nobody())
        self.unread = Unread(log)
        super().__init__(
            KafkaAddress("127.0.0.1:1"),
            1,
            1,
            reader=cast("Any", log),
            recovery=self.unread,
            changelog=nobody,
            flushed=nobody,
            counted={} if counted is None else {0: counted},
            tell=nobody,
        )

    def _check_stopped(self) -> None: ...

    def _commit(self, partition: int, offset: int) -> None: ...

    async def at(self, shard: Shard) -> Accepted:
        accepted = await self._accept_shard(shard)
        assert accepted is not None
        return accepted


class Unread(RecoveryReader):
    """Of what is read for its ids there is none."""

    def __init__(self, log: object) -> None:
        super().__init__(cast("Any", log), "changelog", "increments")
        self.asked: list[int] = []

    async def read_ahead(self, _partition: int, offset: int) -> None:
        self.asked.append(offset)


async def test_a_log_goes_on_at_the_first_record_that_is_younger_than_all_that_was_counted() -> (
    None
):
    """It went by the last batch alone: leaders' clocks differ, and what an earlier one had taken
    was counted twice."""
    times_ms = [NOW_MS + late for late in (0, 600, 990, 400, 500)]
    counted_ms = NOW_MS + 990
    shard = Shard(0, 7, log_ms=counted_ms, last_batch=BatchMark(6, 1, NOW_MS + 500))
    acceptor = Acceptor([*times_ms, NOW_MS + 2_000], Reached(6, counted_ms))
    assert (await acceptor.at(shard)).start == 5


async def test_what_no_worker_reads_is_no_record_that_came_after_what_was_counted() -> None:
    """The end of a transaction, by a clock that was ahead, was; records behind it were counted
    twice."""
    acceptor = Acceptor([], Reached(6, NOW_MS))
    log = Log([NOW_MS, NOW_MS + 5, NOW_MS, NOW_MS], hidden=frozenset({1}))
    acceptor._reader = cast("Any", log)
    acceptor._recovery = Unread(log)
    assert (await acceptor.at(Shard(0, 7, log_ms=NOW_MS))).start == 4


async def test_a_log_that_loses_more_before_anything_of_it_is_counted_counts_nothing_twice() -> (
    None
):
    """A shard that was accepted has no last batch yet: it began at the log's start."""
    shard = Shard(0, 5, log_ms=NOW_MS, incarnation=1)
    acceptor = Acceptor([NOW_MS - 2, NOW_MS - 1, NOW_MS, NOW_MS + 9], Reached(4, NOW_MS, 1))
    accepted = await acceptor.at(shard)
    assert (accepted.start, accepted.incarnation) == (3, 2)


class Trimmed(Log):
    """Its first three records were deleted."""

    async def ends(self, _topic: str, _partition: int) -> tuple[int, int]:
        return 3, len(self.times_ms)


async def test_a_log_without_beginning_and_end_counts_nothing_twice() -> None:
    def acceptor(counted: Reached) -> Acceptor:
        made = Acceptor([], counted)
        made._reader = cast("Any", Trimmed([NOW_MS - 1] * 5))
        made._recovery = Unread(made._reader)
        made._flushed = cast("Any", type("Some", (), {"read": lambda *_: Flushed(9, {})})())
        return made

    first = acceptor(Reached(9, NOW_MS))
    accepted = await first.at(Shard(0, 2, log_ms=NOW_MS - 5))
    assert (accepted.start, accepted.trimmed) == (5, False)

    # Once more: it went back to what had been flushed after the last checkpoint.
    [told] = first.nobody.told
    counted = Reached(told.position - 1, told.log_ms, told.incarnation)
    assert await acceptor(counted)._accept_shard(told) is None


@pytest.mark.parametrize("position", [1_000, 2])
async def test_what_an_incarnation_counted_that_the_changelog_forgot_is_counted_once(
    position: int,
) -> None:
    """All that the log has of it was counted again, by an incarnation of its own."""
    times_ms = [NOW_MS + at for at in range(6)]
    lost = Shard(0, position, log_ms=NOW_MS - 60_000, last_batch=BatchMark(1, 1, NOW_MS - 60_000))
    accepted = await Acceptor(times_ms, Reached(9, NOW_MS + 9, 1, NOW_MS)).at(lost)
    assert (accepted.start, accepted.incarnation) == (6, 2)
    accepted = await Acceptor(times_ms, Reached(3, NOW_MS + 3, 1, NOW_MS)).at(
        Shard(0, position, log_ms=NOW_MS - 60_000)
    )
    assert (accepted.start, accepted.incarnation) == (4, 2)


SLOT = slot_of(NOW_MS)


def has_flushed(acceptor: Acceptor, through: int, slots: dict[int, dict[str, int]]) -> Acceptor:
    """ClickHouse has such cells of the shard."""
    flushed = Flushed(through, slots)
    acceptor._flushed = cast("Any", type("Some", (), {"read": lambda *_: flushed})())
    return acceptor


async def test_log_time_goes_on_from_what_was_flushed_though_the_log_has_lost_it() -> None:
    """It went back to what was checkpointed, into windows that were rolled up."""
    acceptor = Acceptor([NOW_MS, NOW_MS + 1, NOW_MS + 2], Reached(9, NOW_MS + 70_000))
    await acceptor.at(Shard(0, 3, log_ms=NOW_MS + 2))
    [told] = acceptor.nobody.told
    assert (told.position, told.log_ms) == (3, NOW_MS + 70_000)


async def test_what_the_changelog_still_knows_of_is_not_read_again() -> None:
    """The whole log was, by the log time of its end: what had been counted became dead letters."""
    acceptor = Acceptor([NOW_MS - 9, NOW_MS - 5, NOW_MS], Reached(2, NOW_MS, 1))
    accepted = await acceptor.at(Shard(0, 1_000, log_ms=NOW_MS))
    assert (accepted.start, accepted.incarnation) == (3, 2)
    assert acceptor.unread.asked == []


async def test_a_producer_that_can_write_no_more_is_followed_by_another_process() -> None:
    """It was a traceback."""

    class Broken(Acceptor):
        def _check_stopped(self) -> None:
            raise BrokenProducerError("the changelog could not be written")

    with pytest.raises(TryAgainError, match="could not be written; run this again"):
        await Broken([], None).accept()
