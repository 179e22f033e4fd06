"""The leader's duties: done by whoever owns partition 0, and never its end."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.checkpoint import OwnedShard
from pipeline.errors import TryAgainError
from pipeline.leader import Leader, Passes
from pipeline.reconcile.compared import Difference, Reconciled
from pipeline.rollup.steps import Rolled
from pipeline.rules import CountingRules
from pipeline.shard import Shard
from pipeline.trends.scoring import TrendsScored
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
        self.owned = {p: OwnedShard(Shard(p, rules=rules), 0, 1) for p in partitions}


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


class Planning:
    """Remembers its passes; each fails with the next of `failures`."""

    def __init__(self, *failures: Exception) -> None:
        self.passes = self.rests = 0
        self._failures = list(failures)

    def run(self) -> None:
        self.passes += 1
        if self._failures:
            raise self._failures.pop(0)

    def rest(self) -> None:
        self.rests += 1


def leader(
    owner: Any,
    control: Control,
    passes: list[Rolled | Exception],
    keep_plan: Callable[[CountingRules], None] = lambda _: None,
    score_trends: Callable[[CountingRules], TrendsScored] = lambda _: TrendsScored(0, 0, 0.0),
    *,
    planning: Passes | None = None,
    noting: Passes | None = None,
    is_live: Callable[[], bool] = lambda: True,
    reconcile: Callable[[], Reconciled] = lambda: Reconciled(1),
) -> Leader:
    def roll_up() -> Rolled:
        result = passes.pop(0) if passes else Rolled()
        if isinstance(result, Exception):
            raise result
        return result

    settings = Settings(
        heartbeat_interval_s=0.1,
        rollup_interval_s=0.1,
        trends_interval_s=0.1,
        verify_interval_s=0.1,
        config=None,
    )
    return Leader(
        owner,
        control,
        roll_up,
        keep_plan,
        score_trends,
        planning=planning or Planning(),
        noting=noting or Planning(),
        is_live=is_live,
        reconcile=reconcile,
        clock=StillClock(),
        settings=settings,
    )


async def run_until(duty: Any, is_done: Any) -> None:
    task = duty if isinstance(duty, asyncio.Task) else asyncio.create_task(duty)
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


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be repeated soon after the start is repeated at once; the hour stays an hour."""
    monkeypatch.setattr("pipeline.leader.RULES_RETRY_S", 0.01)


@pytest.mark.usefixtures("soon")
async def test_rules_are_repeated_soon_as_partition_0_has_them_and_then_by_the_hour() -> None:
    control, planned = Control(), list[CountingRules]()
    duty = leader(Owner(0), control, [], planned.append).repeat_rules()
    await run_until(duty, lambda: control.appended)
    rules = CountingRules(version=7)
    assert planned == [rules]
    assert control.appended == [("tally.increments", "rules", rules.bytes)]

    again = asyncio.create_task(leader(Owner(0), control, []).repeat_rules())
    async with asyncio.timeout(10):
        while len(control.appended) < 2:  # noqa: ASYNC110 - another thread appends
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    again.cancel()
    assert len(control.appended) == 2


@pytest.mark.usefixtures("soon")
async def test_rules_that_could_not_be_repeated_are_repeated_again_soon() -> None:
    control = Control(failures=1)
    asked: list[CountingRules] = []

    def keep_plan(rules: CountingRules) -> None:
        asked.append(rules)
        if len(asked) == 1:
            raise TryAgainError("Kafka is away")

    duty = leader(Owner(0), control, [], keep_plan).repeat_rules()
    await run_until(duty, lambda: control.appended)
    assert (len(asked), control.asked) == (3, 2)


@pytest.mark.usefixtures("soon")
async def test_who_comes_to_lead_later_repeats_the_rules_soon() -> None:
    owner, control = Owner(1), Control()
    task = asyncio.create_task(leader(owner, control, []).repeat_rules())
    await asyncio.sleep(0.1)
    assert control.asked == 0
    owner.owned = Owner(0).owned
    await run_until(task, lambda: control.appended)


async def test_the_leader_scores_trends_by_its_rules_and_goes_on_after_a_failure() -> None:
    asked: list[int] = []

    def score_trends(rules: CountingRules) -> TrendsScored:
        asked.append(rules.version)
        if len(asked) == 1:
            raise TryAgainError("ClickHouse is away")
        return TrendsScored(1, 0, 0.0)

    duty = leader(Owner(0), Control(), [], score_trends=score_trends).score_trends()
    await run_until(duty, lambda: len(asked) >= 3)
    assert set(asked) == {7}


async def test_who_does_not_lead_scores_no_trends() -> None:
    asked: list[int] = []

    def score_trends(rules: CountingRules) -> TrendsScored:
        asked.append(rules.version)
        return TrendsScored(0, 0, 0.0)

    task = asyncio.create_task(
        leader(Owner(1), Control(), [], score_trends=score_trends).score_trends()
    )
    await asyncio.sleep(0.5)
    task.cancel()
    assert asked == []


@pytest.fixture
def quick_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.leader.PLAN_INTERVAL_S", 0.01)
    monkeypatch.setattr("pipeline.leader.PLAN_RETRY_S", 0.01)


@pytest.mark.usefixtures("quick_plan")
async def test_nothing_that_goes_wrong_ends_the_planning_of_shards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = TryAgainError("Kafka is away")
    planning = Planning(away, away, KeyError("a mistake"))
    duty = leader(Owner(0), Control(), [], planning=planning).plan_shards()
    await run_until(duty, lambda: planning.passes >= 5)
    assert planning.rests == 0
    assert caplog.messages == [
        "Kafka is away; trying again",
        "shards cannot be planned; trying again",
    ]


@pytest.mark.usefixtures("quick_plan")
async def test_who_does_not_lead_rests_from_planning() -> None:
    owner, planning = Owner(1), Planning()
    duty = leader(owner, Control(), [], planning=planning).plan_shards()
    await run_until(duty, lambda: planning.rests >= 2)
    assert planning.passes == 0


async def test_nothing_that_goes_wrong_ends_the_comparing_of_log_and_clickhouse(
    caplog: pytest.LogCaptureFixture,
) -> None:
    differs = Reconciled(1, differences=[Difference(3, 60_000, "p", ledger=7, clickhouse=6)])
    came: list[Reconciled | Exception] = [
        TryAgainError("Kafka is away"),
        KeyError("a mistake"),
        differs,
        differs,
        Reconciled(1),
    ]

    def reconcile() -> Reconciled:
        result = came.pop(0) if came else Reconciled(1)
        if isinstance(result, Exception):
            raise result
        return result

    await run_until(
        leader(Owner(0), Control(), [], reconcile=reconcile).reconcile(), lambda: not came
    )
    assert caplog.messages == [
        "Kafka is away; trying again in 0 s",
        "log and ClickHouse cannot be compared; trying again",
        f"log and ClickHouse differ: {differs.differences[0].text()}",
    ]


async def test_only_the_live_builds_leader_compares() -> None:
    asked: list[str] = []

    def reconcile_as(name: str) -> Reconciled:
        asked.append(name)
        return Reconciled(1)

    others = [
        leader(Owner(1), Control(), [], reconcile=lambda: reconcile_as("follower")),
        leader(
            Owner(0),
            Control(),
            [],
            reconcile=lambda: reconcile_as("not live"),
            is_live=lambda: False,
        ),
    ]
    tasks = [asyncio.create_task(one.reconcile()) for one in others]
    live = leader(Owner(0), Control(), [], reconcile=lambda: reconcile_as("live"))
    await run_until(live.reconcile(), lambda: len(asked) > 3)
    for task in tasks:
        task.cancel()
    assert set(asked) == {"live"}


async def test_the_leader_of_a_build_that_is_not_live_only_rolls_it_up() -> None:
    control, planning = Control(), Planning()
    live = [False]
    made = leader(Owner(0), control, [], planning=planning, is_live=lambda: live[0])
    beating = asyncio.create_task(made.send_heartbeats())
    planning_task = asyncio.create_task(made.plan_shards())
    rolled: list[Rolled | Exception] = [Rolled(), Rolled()]
    await run_until(
        leader(Owner(0), control, rolled, is_live=lambda: False).roll_up(), lambda: not rolled
    )
    await run_until(planning_task, lambda: planning.rests)
    assert control.appended == []
    assert planning.passes == 0
    live[0] = True
    await run_until(beating, lambda: control.appended)


async def test_nothing_that_goes_wrong_ends_the_noting_of_partitions(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.leader.PARTITIONS_INTERVAL_S", 0.01)
    noting = Planning(TryAgainError("Kafka is away"), KeyError("a mistake"))
    duty = leader(Owner(0), Control(), [], noting=noting).note_partitions()
    await run_until(duty, lambda: noting.passes >= 4)
    assert noting.rests == 0
    assert caplog.messages == [
        "Kafka is away; trying again in 0 s",
        "partitions cannot be noted; trying again",
    ]


async def test_only_the_live_builds_leader_notes_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeline.leader.PARTITIONS_INTERVAL_S", 0.01)
    noting = Planning()
    others = [
        leader(Owner(1), Control(), [], noting=noting),
        leader(Owner(0), Control(), [], noting=noting, is_live=lambda: False),
    ]
    for other in others:
        noting.rests = 0
        await run_until(other.note_partitions(), lambda: noting.rests >= 2)
    assert noting.passes == 0
