"""Where a shard goes on whose log is accepted again, and what it counts then."""

from typing import Any, cast

import numpy as np
import pytest

from pipeline.builds.positions import Reached
from pipeline.cells import WINDOW_MS, CellKey
from pipeline.checkpoint import OwnedShard
from pipeline.errors import ShardRefusedError
from pipeline.shard import BatchMark, Fetched, Row, Shard
from tests.unit.test_accept_log import NOW_MS, SLOT, Acceptor, Unread, has_flushed
from tests.unit.test_flushed_check import Check, Log
from tests.unit.test_going_on import recovered

CELL = CellKey("likes:a", "eu", NOW_MS - NOW_MS % WINDOW_MS)
OTHER = CELL._replace(counter="likes:b")
CELLS = {CELL.text(): 7}
MINUTE_MS = 60_000


class TrimmedTo(Log):
    """Its records up to an offset were deleted."""

    def __init__(self, times_ms: list[int], start: int) -> None:
        super().__init__(times_ms)
        self._start = start

    async def ends(self, _topic: str, _partition: int) -> tuple[int, int]:
        return self._start, len(self.times_ms)


def acceptor(
    log: Log, counted: Reached, through: int, cells: dict[str, int] | None = None
) -> Acceptor:
    """Of this log, where so much was flushed of the slot."""
    made = has_flushed(Acceptor([], counted), through, {SLOT: cells} if cells else {})
    made._reader = cast("Any", log)
    made._recovery = Unread(log)
    return made


def read(shard: Shard, *times_ms: int) -> int:
    """How much the shard counts of one more record in the cell at each of these times."""
    start, size = shard.position, len(times_ms)
    offsets = np.arange(start, start + size)
    rows = [Row(at, 0, CELL.counter, CELL.region, NOW_MS, 1, None) for at in offsets.tolist()]
    shard.absorb_rows(rows, Fetched(offsets, np.array(times_ms), start + size))
    return sum(int(cells.values().p.sum()) for cells in shard.slots.values())


async def test_what_was_flushed_before_a_trim_counts_once_after_a_second_trim() -> None:
    """The second `accept-log` asked for what was flushed under the incarnation that the first one
    had begun, which was nothing, so that the rows from 5 to 7 were counted again."""
    times_ms = [NOW_MS] * 10
    first = acceptor(TrimmedTo(times_ms, 3), Reached(7, NOW_MS), 7, CELLS)
    assert (await first.at(Shard(0, 2, log_ms=NOW_MS))).trimmed
    [once] = first.nobody.told
    second = acceptor(TrimmedTo(times_ms, 5), Reached(2, NOW_MS, 1), 2)
    accepted = await second.at(recovered(once))
    assert (accepted.start, accepted.incarnation, accepted.trimmed) == (5, 2, True)
    [twice] = second.nobody.told
    assert read(recovered(twice), *times_ms[5:8]) == 0
    assert read(recovered(twice), *times_ms[5:]) == 2


@pytest.mark.parametrize(("later_ms", "start"), [(0, 6), (1, 5)])
async def test_a_log_that_was_trimmed_twice_and_has_lost_its_end_was_not_just_trimmed(
    later_ms: int, start: int
) -> None:
    """What was flushed before the first trim tells so; records in the place of those that are lost
    would have been skipped as theirs."""
    first = acceptor(TrimmedTo([NOW_MS] * 10, 3), Reached(7, NOW_MS), 7, CELLS)
    await first.at(Shard(0, 2, log_ms=NOW_MS))
    [once] = first.nobody.told
    log = TrimmedTo([NOW_MS + late for late in (0, 0, 0, 0, 0, later_ms)], 5)
    second = acceptor(log, Reached(2, NOW_MS, 1), 2)
    accepted = await second.at(recovered(once))
    assert (accepted.start, accepted.trimmed) == (start, False)
    [twice] = second.nobody.told
    assert read(recovered(twice), *[NOW_MS + 1] * (8 - start)) == 2


async def test_what_takes_the_place_of_what_a_trimmed_log_lost_is_counted() -> None:
    """Nobody saw that the log ended before what was flushed before the trim, and what came next was
    skipped as that."""
    first = acceptor(TrimmedTo([NOW_MS] * 10, 3), Reached(7, NOW_MS), 7, CELLS)
    await first.at(Shard(0, 2, log_ms=NOW_MS, last_batch=BatchMark(1, 7, NOW_MS)))
    [once] = first.nobody.told
    shard, log, counted = recovered(once), TrimmedTo([NOW_MS] * 5, 3), Reached(2, NOW_MS, 1)
    with pytest.raises(ShardRefusedError, match="up to offset 7, but its log now ends at 5"):
        await Check(log, counted)([OwnedShard(shard, committed=3, writer=1)])
    second = acceptor(log, counted, 2)
    accepted = await second.at(shard)
    assert (accepted.start, accepted.incarnation) == (3, 2)
    [twice] = second.nobody.told
    await Check(log, Reached(2, NOW_MS, 2))([OwnedShard(recovered(twice), committed=3, writer=1)])
    assert read(recovered(twice), *[NOW_MS] * 5) == 3


@pytest.mark.parametrize(("later_ms", "counted"), [(0, 2), (MINUTE_MS, 3)])
async def test_what_a_flush_wrote_before_it_told_how_far_is_counted_once(
    later_ms: int, counted: int
) -> None:
    """Its cells were there and its position row was not: they were counted again beside them. Then
    all up to the greatest of them was skipped, also what the flush had not come to."""
    times_ms = [NOW_MS + at for at in range(5)] + [NOW_MS + later_ms + at for at in (5, 6, 7)]
    forgot = acceptor(
        Log(times_ms), Reached(3, NOW_MS + 3, 1), 6, {CELL.text(): 5, OTHER.text(): 6}
    )
    accepted = await forgot.at(Shard(0, 1_000, log_ms=NOW_MS - MINUTE_MS))
    assert (accepted.start, accepted.incarnation) == (4, 2)
    [told] = forgot.nobody.told
    assert read(recovered(told), *times_ms[4:]) == counted


@pytest.mark.parametrize(("later_ms", "counted"), [(0, 1), (MINUTE_MS, 4)])
async def test_nor_is_it_counted_twice_in_a_log_that_lost_beginning_and_end(
    later_ms: int, counted: int
) -> None:
    """Accepted once more before anything was counted, it went back to where the flush was cut."""
    times_ms = [NOW_MS + at for at in range(5)] + [NOW_MS + later_ms + at for at in (5, 6, 7)]
    log = TrimmedTo(times_ms, 3)
    first = acceptor(log, Reached(4, NOW_MS + 4), 9, {CELL.text(): 9})
    accepted = await first.at(Shard(0, 2, log_ms=NOW_MS + 1))
    assert (accepted.start, accepted.incarnation) == (5, 1)
    [told] = first.nobody.told
    shard = recovered(told)
    second = acceptor(log, Reached(told.position - 1, told.log_ms, 1), 4)
    assert await second._accept_shard(shard) is None
    # What comes in the place of what is lost for good is counted.
    assert read(shard, *times_ms[5:], times_ms[7]) == counted


async def test_what_came_in_the_place_of_what_was_counted_is_counted_in_such_a_log() -> None:
    """It was taken for what a cut flush has, up to the greatest offset of any cell."""
    times_ms = [NOW_MS + at for at in range(8)]
    made = acceptor(TrimmedTo(times_ms, 3), Reached(9, NOW_MS + 4), 9, {CELL.text(): 9})
    assert (await made.at(Shard(0, 2, log_ms=NOW_MS + 1))).start == 5
    [told] = made.nobody.told
    assert read(recovered(told), *times_ms[5:]) == 3
