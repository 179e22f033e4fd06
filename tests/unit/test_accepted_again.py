"""Where a shard goes on whose log is accepted again, and what it counts then."""

from typing import Any, cast

import numpy as np

from pipeline.builds.positions import Reached
from pipeline.cells import WINDOW_MS, CellKey
from pipeline.shard import Fetched, Row, Shard
from tests.unit.test_accept_log import NOW_MS, SLOT, Acceptor, Unread, has_flushed
from tests.unit.test_flushed_check import Log
from tests.unit.test_going_on import recovered

CELL = CellKey("likes:a", "eu", NOW_MS - NOW_MS % WINDOW_MS)
CELLS = {CELL.text(): 7}


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


async def test_a_log_that_was_trimmed_twice_and_has_lost_its_end_was_not_just_trimmed() -> None:
    """What was flushed before the first trim tells so; records in the place of those that are lost
    would have been skipped as theirs."""
    first = acceptor(TrimmedTo([NOW_MS] * 10, 3), Reached(7, NOW_MS), 7, CELLS)
    await first.at(Shard(0, 2, log_ms=NOW_MS))
    [once] = first.nobody.told
    second = acceptor(TrimmedTo([NOW_MS] * 6, 5), Reached(2, NOW_MS, 1), 2)
    accepted = await second.at(recovered(once))
    assert (accepted.start, accepted.trimmed) == (6, False)
    [twice] = second.nobody.told
    assert read(recovered(twice), NOW_MS, NOW_MS) == 2
