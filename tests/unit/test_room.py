"""Reading waits when there is no room, and goes on by itself."""

import asyncio

import pytest

from pipeline.writes.room import APART_S, DEAD_LETTER_BYTES_MAX, Room
from tests.kit.clocks import ManualClock


class Buffer:
    """A room, and the number of dead letters that its worker holds."""

    def __init__(self) -> None:
        self.letters = 0
        self.bytes = 0
        self.clock = ManualClock()
        self.room = Room(100, lambda: (self.letters, self.bytes), self.clock, dead_letters_max=10)

    async def waiting(self) -> "asyncio.Task[None]":
        """A reader that has had every chance to go on."""
        reader = asyncio.ensure_future(self.room.wait())
        await settled()
        return reader


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def buffer() -> Buffer:
    return Buffer()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_reading_does_not_wait_while_there_is_room(
    buffer: Buffer, caplog: pytest.LogCaptureFixture
) -> None:
    buffer.room.take(99)
    buffer.letters = 9
    assert (await buffer.waiting()).done()
    assert lines(caplog) == []


async def test_reading_waits_for_unflushed_rows_and_goes_on_when_they_are_flushed(
    buffer: Buffer, caplog: pytest.LogCaptureFixture
) -> None:
    buffer.room.take(130)
    reader = await buffer.waiting()
    assert not reader.done()
    await buffer.room.free(30)
    await settled()
    assert not reader.done()
    buffer.clock.advance(12)
    await buffer.room.free(1)
    await asyncio.wait_for(reader, 5)
    assert buffer.room.rows == 99
    assert lines(caplog) == [
        "reading pauses: 130 increments are not flushed yet, and TALLY_UNFLUSHED_ROWS_MAX is 100",
        "reading goes on after 12.0 s",
    ]


async def test_reading_waits_for_dead_letters_and_goes_on_when_they_are_written(
    buffer: Buffer, caplog: pytest.LogCaptureFixture
) -> None:
    buffer.letters = 10
    reader = await buffer.waiting()
    assert buffer.room.lacks_dead_letters()
    await buffer.room.free(0)
    await settled()
    assert not reader.done()
    buffer.letters = 9
    await buffer.room.free(0)
    await asyncio.wait_for(reader, 5)
    assert lines(caplog) == [
        "reading pauses: 10 dead letters of 0 bytes are not written yet",
        "reading goes on after 0.0 s",
    ]


async def test_several_readers_that_wait_are_one_pause(
    buffer: Buffer, caplog: pytest.LogCaptureFixture
) -> None:
    buffer.room.take(100)
    readers = [await buffer.waiting() for _ in range(3)]
    await buffer.room.free(100)
    await asyncio.wait_for(asyncio.gather(*readers), 5)
    assert len(lines(caplog)) == 2


async def test_a_reader_that_is_cancelled_leaves_the_room_as_it_was(
    buffer: Buffer, caplog: pytest.LogCaptureFixture
) -> None:
    buffer.room.take(100)
    reader = await buffer.waiting()
    reader.cancel()
    await asyncio.wait([reader])
    again = await buffer.waiting()
    await buffer.room.free(100)
    await asyncio.wait_for(again, 5)
    assert [line.split(":")[0] for line in lines(caplog)] == [
        "reading pauses",
        "reading pauses",
        "reading goes on after 0.0 s",
    ]


async def test_more_freed_than_taken_is_empty(buffer: Buffer) -> None:
    buffer.room.take(5)
    await buffer.room.free(9)
    assert buffer.room.rows == 0


async def test_a_few_letters_may_be_too_much_by_their_bytes(buffer: Buffer) -> None:
    buffer.letters, buffer.bytes = 1, DEAD_LETTER_BYTES_MAX
    reader = await buffer.waiting()
    assert not reader.done()
    buffer.bytes = 0
    await buffer.room.free(0)
    await asyncio.wait_for(reader, 5)


async def test_whoever_makes_room_learns_that_half_of_it_is_taken(buffer: Buffer) -> None:
    writer = asyncio.ensure_future(buffer.room.until_wanted(60))
    buffer.room.take(49)
    await settled()
    assert not writer.done()
    buffer.room.take(1)
    await asyncio.wait_for(writer, 5)
    await buffer.room.free(1)
    again = asyncio.ensure_future(buffer.room.until_wanted(60))
    await settled()
    assert not again.done()
    again.cancel()


async def test_whoever_makes_room_learns_that_dead_letters_have_none(buffer: Buffer) -> None:
    buffer.letters = 10
    reader = await buffer.waiting()
    await asyncio.wait_for(buffer.room.until_wanted(60), 5)
    reader.cancel()


async def test_room_is_wanted_for_as_long_as_too_little_was_made(buffer: Buffer) -> None:
    buffer.room.take(200)
    reader = await buffer.waiting()
    await buffer.room.free(100)
    await asyncio.wait_for(buffer.room.until_wanted(60), 5)
    reader.cancel()


async def test_whoever_makes_room_waits_no_longer_than_asked_for(buffer: Buffer) -> None:
    await asyncio.wait_for(buffer.room.until_wanted(0.01), 5)


async def written(buffer: Buffer, took_s: float = 0.0) -> None:
    """One write, from its beginning to its end."""
    buffer.room.begin()
    buffer.clock.advance(took_s)
    await buffer.room.free(0)


async def is_wanted(buffer: Buffer, within_s: float = 0.02) -> bool:
    """Whether a write is wanted within so long of the loop's time."""
    writer = asyncio.ensure_future(buffer.room.until_wanted(60))
    await asyncio.wait([writer], timeout=within_s)
    writer.cancel()
    return writer.done() and not writer.cancelled()


async def test_a_write_begins_at_once_for_whoever_waits_for_what_is_counted(buffer: Buffer) -> None:
    assert not await is_wanted(buffer)
    buffer.room.hurry()
    assert await is_wanted(buffer)
    await written(buffer)
    assert not await is_wanted(buffer)


async def test_who_asks_during_a_write_is_not_forgotten_when_it_ends(buffer: Buffer) -> None:
    buffer.room.begin()
    buffer.clock.advance(1)
    buffer.room.hurry()
    await settled()
    await buffer.room.free(0)
    assert await is_wanted(buffer, within_s=2 * 1.0 + 1)
    await written(buffer)
    assert not await is_wanted(buffer)


async def test_who_asked_before_a_write_began_is_served_by_it(buffer: Buffer) -> None:
    buffer.room.hurry()
    await written(buffer)
    await asyncio.sleep(APART_S)
    assert not await is_wanted(buffer)


async def test_writes_in_a_hurry_are_apart_however_many_ask(buffer: Buffer) -> None:
    await written(buffer)
    for _ in range(100):
        buffer.room.hurry()
    assert not await is_wanted(buffer, within_s=APART_S / 2)
    assert await is_wanted(buffer, within_s=APART_S * 5)
    await written(buffer)
    assert not await is_wanted(buffer, within_s=APART_S * 1.5)


async def test_after_long_writes_as_long_is_left_for_counting(buffer: Buffer) -> None:
    await written(buffer, took_s=0.2)
    await written(buffer, took_s=0.2)
    buffer.room.hurry()
    assert not await is_wanted(buffer, within_s=0.1)
    assert await is_wanted(buffer, within_s=1)


async def test_one_long_write_is_not_taken_for_work(buffer: Buffer) -> None:
    """It may have hung: who asked for a flush waited as long again."""
    await written(buffer, took_s=8)
    buffer.room.hurry()
    assert await is_wanted(buffer, within_s=2)


async def test_the_newest_of_the_log_is_wanted_after_a_while_and_nothing_older(
    buffer: Buffer,
) -> None:
    writer = asyncio.ensure_future(buffer.room.until_wanted(60, newest_after_s=0.01))
    buffer.room.take(1)
    await asyncio.sleep(0.05)
    assert not writer.done()
    buffer.room.take(1, newest=True)
    await asyncio.wait_for(writer, 5)


async def test_the_newest_waits_for_its_time(buffer: Buffer) -> None:
    writer = asyncio.ensure_future(buffer.room.until_wanted(60, newest_after_s=30))
    buffer.room.take(1, newest=True)
    await settled()
    assert not writer.done()
    writer.cancel()


async def test_what_a_write_holds_is_wanted_no_more_and_what_came_meanwhile_is(
    buffer: Buffer,
) -> None:
    buffer.room.take(1, newest=True)
    buffer.room.begin()
    await buffer.room.free(1)
    idle = asyncio.ensure_future(buffer.room.until_wanted(60, newest_after_s=0))
    await asyncio.sleep(0.02)
    assert not idle.done()
    idle.cancel()
    buffer.room.begin()
    buffer.room.take(1, newest=True)
    await buffer.room.free(0)
    await asyncio.wait_for(buffer.room.until_wanted(60, newest_after_s=0), 5)


async def test_who_pauses_no_longer_than_the_newest_would_wait_does_not_look_for_it(
    buffer: Buffer,
) -> None:
    await asyncio.wait_for(buffer.room.until_wanted(0.01, newest_after_s=60), 5)
