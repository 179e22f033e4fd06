"""A worker waits at a handover while its build is live, and never for long."""

import asyncio

import numpy as np
import pytest

from pipeline.builds import following
from pipeline.builds.following import HANDOVER_KEY, WAIT_MS, Following, Handover, handovers_in
from pipeline.bulk import Fetch, cut_after
from pipeline.errors import TryAgainError
from schemas.records import Records
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


def records(keys: list[bytes | None], start: int = 10) -> Records:
    count = len(keys)
    offsets = np.arange(start, start + 2 * count, 2)  # with gaps, as a log may have them
    return Records(0, offsets, offsets * 1000, keys, [b"v"] * count, [()] * count)


def test_handovers_are_found_by_their_key_in_log_order() -> None:
    found = handovers_in(records([None, HANDOVER_KEY, b"else", HANDOVER_KEY]))
    assert found == [Handover(12, 12_000), Handover(16, 16_000)]
    assert handovers_in(records([None, b"else"])) == []


def test_a_fetch_is_cut_behind_an_offset_and_loses_nothing() -> None:
    fetch = Fetch(9, 20, records([b"a", b"b", b"c"]))
    before, after = cut_after(fetch, 12)
    assert (before.start, before.next_offset, before.records.keys) == (9, 13, [b"a", b"b"])
    assert (after.start, after.next_offset, after.records.keys) == (13, 20, [b"c"])


async def test_a_build_that_was_never_live_does_not_wait_and_does_not_retire() -> None:
    retired: list[int] = []
    follower = Following(2, Declared(1), retired.append, ManualClock())
    await follower.look()
    assert not follower.is_live()
    assert await follower.wait_at(Handover(5, 1_000_000)) is False
    assert retired == []


async def test_a_live_build_waits_until_another_is_declared_and_then_retires_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "LOOK_AT_HANDOVER_S", 0.001)
    retired: list[int] = []
    declared, clock = Declared(1), ManualClock()
    follower = Following(1, declared, retired.append, clock)
    await follower.look()
    waiting = asyncio.create_task(follower.wait_at(Handover(5, clock.now_ms())))
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
    follower = Following(1, declared, lambda _: None, clock)
    await follower.look()
    waiting = asyncio.create_task(follower.wait_at(Handover(5, clock.now_ms())))
    declared.build = None  # away: neither retired nor released
    while declared.asked < 5:  # noqa: ASYNC110 - asked in a thread
        await asyncio.sleep(0.001)
    assert not waiting.done()
    clock.advance(WAIT_MS / 1000)
    assert await waiting is False
    assert follower.is_live()


async def test_an_old_handover_is_passed_at_once() -> None:
    declared, clock = Declared(1), ManualClock()
    follower = Following(1, declared, lambda _: None, clock)
    await follower.look()
    assert await follower.wait_at(Handover(5, clock.now_ms() - WAIT_MS)) is False
    assert declared.asked == 1
