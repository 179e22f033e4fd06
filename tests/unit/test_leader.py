"""The leader's duties: done by whoever owns partition 0, and never its end."""

import asyncio
import json
from typing import Any

import pytest

from pipeline.checkpoint import OwnedShard
from pipeline.errors import TryAgainError
from pipeline.leader import Leader
from pipeline.rollup.steps import Rolled
from pipeline.rules import CountingRules
from pipeline.shard import Shard
from schemas.settings import Settings

NOW_MS = 1_760_000_000_000


class StillClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_s(self) -> float:
        return 0.0


class Owner:
    def __init__(self, *partitions: int) -> None:
        rules = CountingRules(version=7)
        self.owned = {p: OwnedShard(Shard(p, rules=rules), 0) for p in partitions}


class Control:
    """Remembers what was appended; the first `failures` appends fail."""

    def __init__(self, failures: int = 0) -> None:
        self.appended: list[tuple[str, str, bytes]] = []
        self.asked = 0
        self._failures = failures

    async def append_control(self, topic: str, kind: str, value: bytes) -> None:
        self.asked += 1
        if self.asked <= self._failures:
            raise TryAgainError("Kafka is away")
        self.appended.append((topic, kind, value))


def leader(owner: Any, control: Control, passes: list[Rolled | Exception]) -> Leader:
    def roll_up() -> Rolled:
        result = passes.pop(0) if passes else Rolled()
        if isinstance(result, Exception):
            raise result
        return result

    settings = Settings(heartbeat_interval_s=0.1, rollup_interval_s=0.1, config=None)
    return Leader(owner, control, roll_up, StillClock(), settings)


async def run_until(duty: Any, is_done: Any) -> None:
    task = asyncio.create_task(duty)
    try:
        async with asyncio.timeout(10):
            while not is_done():
                assert not task.done(), task.exception()
                await asyncio.sleep(0.01)
    finally:
        task.cancel()


async def test_the_owner_of_partition_0_sends_heartbeats_with_its_time() -> None:
    control = Control()
    await run_until(leader(Owner(0, 3), control, []).send_heartbeats(), lambda: control.appended)
    [(topic, kind, value)] = control.appended
    assert (topic, kind, json.loads(value)) == (
        "tally.increments",
        "heartbeat",
        {"sent_ms": NOW_MS},
    )


async def test_nobody_else_does_anything() -> None:
    control = Control()
    passes: list[Rolled | Exception] = [Rolled()]
    follower = leader(Owner(1, 2), control, passes)
    duties = [
        asyncio.create_task(duty) for duty in (follower.send_heartbeats(), follower.roll_up())
    ]
    await asyncio.sleep(0.5)
    for duty in duties:
        duty.cancel()
    assert (control.asked, len(passes)) == (0, 1)


async def test_a_server_that_is_away_is_asked_again() -> None:
    control = Control(failures=2)
    await run_until(leader(Owner(0), control, []).send_heartbeats(), lambda: control.appended)
    assert control.asked == 3


async def test_a_pass_that_fails_does_not_end_the_rollups(
    caplog: pytest.LogCaptureFixture,
) -> None:
    passes: list[Rolled | Exception] = [
        TryAgainError("ClickHouse is away"),
        Rolled(problems=["family likes was not rolled up"]),
        Rolled(),
    ]
    await run_until(leader(Owner(0), Control(), passes).roll_up(), lambda: not passes)
    assert "ClickHouse is away" in caplog.text
    assert "family likes was not rolled up" in caplog.text


async def test_rules_are_repeated_as_partition_0_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.leader.RULES_INTERVAL_S", 0.05)
    control = Control()
    await run_until(leader(Owner(0), control, []).repeat_rules(), lambda: control.appended)
    assert control.appended[0][1:] == ("rules", CountingRules(version=7).bytes)
