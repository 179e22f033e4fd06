"""A worker waits at a handover while its build is live, and never for long."""

import asyncio
from dataclasses import replace

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
