"""A worker waits at a handover while its build is live, and never for long."""

import asyncio
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pipeline.builds import following
from pipeline.builds.following import HANDOVER_KEY, WAIT_MS, Following, Handover, handovers_in
from pipeline.errors import TryAgainError
from pipeline.fetches import Fetch, cut_after
from schemas.records import Headers, Records
from tests.kit.clocks import ManualClock


class Declared:
    """Which build is live, as ClickHouse would say; None if it is away."""

    def __init__(self, build: int | None) -> None:
        self.build = build
        self.asked = 0

    def __call__(self) -> int:
        self.asked += 1
        if self.build is None:
            raise TryAgainError("ClickHouse is away")
        return self.build


HANDED_OVER = (("tally-kind", b"handover"),)


def records(keys: list[bytes | None], start: int = 10) -> Records:
    """Handovers to build 2 where the key says so, in a log with gaps."""
    count = len(keys)
    offsets = np.arange(start, start + 2 * count, 2)
    values: list[bytes | None] = [b'{"build": 2}'] * count
    headers: list[Headers] = [HANDED_OVER if key == HANDOVER_KEY else () for key in keys]
    return Records(0, offsets, offsets * 1000, keys, values, headers)


def test_handovers_are_found_by_their_key_in_log_order() -> None:
    found = handovers_in(records([None, HANDOVER_KEY, b"else", HANDOVER_KEY]))
    assert found == [Handover(12, 12_000, 2), Handover(16, 16_000, 2)]
    assert handovers_in(records([None, b"else"])) == []


def test_a_record_of_that_key_is_no_handover_without_the_header_or_a_build() -> None:
    one = records([HANDOVER_KEY])
    assert handovers_in(replace(one, headers=[()])) == []
    assert handovers_in(replace(one, values=[b"oops"])) == []
    assert handovers_in(replace(one, values=[None])) == []


def test_a_record_that_nests_too_deep_is_no_handover() -> None:
    """It ended every worker that read it: whoever writes to the log could stop all counting."""
    nested = b'{"build": 2, "x": ' + b"[" * 3000
    assert handovers_in(replace(records([HANDOVER_KEY]), values=[nested])) == []


async def test_the_build_that_takes_over_does_not_wait_when_it_reads_its_handover_again() -> None:
    clock = ManualClock()
    follower = Following(2, 2, Declared(2), lambda _: None, clock)
    assert await follower.wait_at(Handover(5, clock.now_ms(), 2)) is False


async def test_a_swap_before_the_first_look_is_not_missed() -> None:
    retired: list[int] = []
    follower = Following(1, 1, Declared(2), retired.append, ManualClock())
    assert follower.is_live()
    await follower.look()
    assert retired == [2]


def test_a_fetch_is_cut_behind_an_offset_and_loses_nothing() -> None:
    fetch = Fetch(9, 20, records([b"a", b"b", b"c"]))
    before, after = cut_after(fetch, 12)
    assert (before.start, before.next_offset, before.records.keys) == (9, 13, [b"a", b"b"])
    assert (after.start, after.next_offset, after.records.keys) == (13, 20, [b"c"])


async def test_a_build_that_was_never_live_does_not_wait_and_does_not_retire() -> None:
    retired: list[int] = []
    follower = Following(2, 1, Declared(1), retired.append, ManualClock())
    await follower.look()
    assert not follower.is_live()
    assert await follower.wait_at(Handover(5, 1_000_000, 3)) is False
    assert retired == []


async def test_a_live_build_waits_until_another_is_declared_and_then_retires_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "LOOK_AT_HANDOVER_S", 0.001)
    retired: list[int] = []
    declared, clock = Declared(1), ManualClock()
    follower = Following(1, 1, declared, retired.append, clock)
    await follower.look()
    waiting = asyncio.create_task(follower.wait_at(Handover(5, clock.now_ms(), 2)))
    while declared.asked < 5:  # noqa: ASYNC110 - asked in a thread
        await asyncio.sleep(0.001)
    assert not waiting.done()
    declared.build = 2
    assert await waiting is True
    await follower.look()
    assert retired == [2]


async def test_a_handover_that_comes_to_nothing_is_waited_for_until_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "LOOK_AT_HANDOVER_S", 0.001)
    declared, clock = Declared(1), ManualClock()
    follower = Following(1, 1, declared, lambda _: None, clock)
    await follower.look()
    waiting = asyncio.create_task(follower.wait_at(Handover(5, clock.now_ms(), 2)))
    declared.build = None  # away: neither retired nor released
    while declared.asked < 5:  # noqa: ASYNC110 - asked in a thread
        await asyncio.sleep(0.001)
    assert not waiting.done()
    clock.advance(WAIT_MS / 1000)
    assert await waiting is False
    assert follower.is_live()


async def test_an_old_handover_is_passed_at_once() -> None:
    declared, clock = Declared(1), ManualClock()
    follower = Following(1, 1, declared, lambda _: None, clock)
    await follower.look()
    assert await follower.wait_at(Handover(5, clock.now_ms() - WAIT_MS, 2)) is False
    assert declared.asked == 1
    assert follower.is_live()


@dataclass
class SkewedClock(ManualClock):
    """One that is ahead of the log's clock, or behind it."""

    ahead_s: float = 0.0

    def now_ms(self) -> int:
        return int((self.now_s + self.ahead_s) * 1000)


async def waited_s(
    clock: SkewedClock,
    handovers: list[Handover],
    end_ms: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> float:
    """How long a live build waits at these, one after the other, when nobody takes over."""

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    began_s = clock.now_s
    follower = Following(1, 1, Declared(1), lambda _: None, clock)
    for handover in handovers:
        assert await follower.wait_at(handover, end_ms) is False
    return clock.now_s - began_s


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
async def test_a_clock_that_is_wrong_makes_nobody_wait_longer_nor_go_on_at_once(
    ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SkewedClock(10_000.0, ahead_s=ahead_s)
    monkeypatch.setattr(following, "LOOK_AT_HANDOVER_S", 1.0)
    # Every partition has one, and all of them are met by this worker.
    handovers = [Handover(5 + at, 10_000_000 + at, 2) for at in range(4)]
    waited = await waited_s(clock, handovers, 10_000_500, monkeypatch)
    assert WAIT_MS / 1000 - 1 <= waited <= WAIT_MS / 1000


async def test_a_handover_that_the_log_has_left_behind_is_old_by_any_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, handover = SkewedClock(10_000.0), Handover(5, 10_000_000 - 2 * WAIT_MS, 2)
    assert await waited_s(clock, [handover], 10_000_000, monkeypatch) == 0


@pytest.mark.parametrize("later_ms", [3_000, 9_500, WAIT_MS])
async def test_a_swap_that_is_tried_again_is_waited_for_again(
    later_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However soon that is: its build may be declared for as long as workers wait for it."""
    monkeypatch.setattr(following, "LOOK_AT_HANDOVER_S", 1.0)
    handovers = [Handover(5, 10_000_000, 2), Handover(9, 10_000_000 + later_ms, 2)]
    clock = SkewedClock(10_000.0, ahead_s=-3600.0)
    assert await waited_s(clock, handovers, None, monkeypatch) == 2 * WAIT_MS / 1000
    clock = SkewedClock(10_000.0)
    waited = await waited_s(clock, handovers, None, monkeypatch)
    assert waited * 1000 == pytest.approx(WAIT_MS + later_ms, abs=1_000)
