"""Waiting until what has a receipt is counted."""

from dataclasses import dataclass, field
from typing import cast

from pipeline.reads.reads import FlushedShard, Reads
from pipeline.reads.receipts import Behind, behind, told, wait_until_counted
from tests.kit.clocks import ManualClock


def at(**through: int) -> list[FlushedShard]:
    return [FlushedShard(int(name[1:]), offset, 0, 0, 0, 0) for name, offset in through.items()]


def test_a_place_is_counted_when_its_shard_is_through_it() -> None:
    positions = at(p0=10, p2=5)
    assert behind(positions, {0: 10}) == []
    assert behind(positions, {0: 9, 2: 5}) == []
    assert behind(positions, {2: 6, 0: 11}) == [Behind(0, 10, 11), Behind(2, 5, 6)]
    assert behind(positions, {1: 0}) == [Behind(1, -1, 0)]
    assert behind(positions, {}) == []


def test_how_far_they_are_is_told_of_the_first_few() -> None:
    assert told([]) == ""
    assert told([Behind(0, 10, 11)]) == "shard 0 is at 10 of 11"
    many = [Behind(shard, -1, 1) for shard in range(5)]
    assert told(many).endswith("shard 2 is at -1 of 1, and 2 more")


@dataclass
class Growing:
    """Reads of a shard that counts one offset per question."""

    through: int = -1
    asked: int = field(default=0)

    def positions(self) -> list[FlushedShard]:
        self.asked += 1
        self.through += 1
        return at(p3=self.through)


def wait(reads: Growing, offset: int, timeout_s: float, clock: ManualClock) -> bool:
    return wait_until_counted(cast(Reads, reads), {3: offset}, timeout_s, clock, clock.advance)


def test_it_waits_until_it_is_counted_and_no_longer() -> None:
    reads, clock = Growing(), ManualClock()
    assert wait(reads, 4, 10.0, clock)
    assert reads.asked == 5
    assert clock.now_s < 1_001


def test_it_gives_up_in_time_but_asks_once() -> None:
    clock = ManualClock()
    assert not wait(Growing(), 10_000, 10.0, clock)
    assert 1_010 <= clock.now_s < 1_010.2
    assert wait(Growing(), 0, 0.0, clock)
    assert not wait(Growing(), 1, 0.0, clock)
