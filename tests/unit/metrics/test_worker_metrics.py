"""What a worker's shells tell: writes, passes, waits, recoveries, and that the loop turns."""

import asyncio

import pytest

from pipeline.errors import TryAgainError
from pipeline.leader import Leader
from pipeline.metrics import liveness as liveness_module
from pipeline.metrics.definitions.worker import WORKER
from pipeline.metrics.liveness import STUCK_S, Liveness
from pipeline.metrics.recoveries import Recoveries
from pipeline.metrics.values import Metrics
from pipeline.rollup.steps import Rolled
from pipeline.writes.pulse import Pulse
from pipeline.writes.room import Room
from tests.kit.clocks import ManualClock
from tests.unit import test_leader, test_pulse
from tests.unit.metrics.test_definition import exposed


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(WORKER)


async def test_writes_are_told_by_kind_with_their_durations_and_failures(metrics: Metrics) -> None:
    worker = test_pulse.Worker()
    pulse = Pulse(
        worker.checkpointer,
        worker.pulse._group,
        worker.room,
        worker.pace,
        check_first=worker.servers.check_first,
        meter=metrics,
    )
    worker.servers.pulse = None
    worker.servers.failures = [TryAgainError("away")]
    await pulse.beat()
    worker.clock.advance(3)
    assert exposed(metrics)["tally_worker_flush_age_seconds"] == 3
    assert exposed(metrics)["tally_worker_unflushed_rows"] == 10
    await pulse.beat()
    worker.pace.checkpoint_soon()
    await pulse.beat()
    found = exposed(metrics)
    assert found['tally_worker_write_failures_total{write="flush"}'] == 1
    assert found['tally_worker_write_seconds_count{write="flush"}'] == 1
    assert found['tally_worker_write_seconds_count{write="checkpoint"}'] == 1
    assert found["tally_worker_flush_age_seconds"] == 0
    assert found["tally_worker_unflushed_rows"] == 0
    assert found["tally_worker_live_cells"] == 1
    assert found["tally_worker_owned_shards"] == 1


async def test_reading_that_waits_for_room_is_told(metrics: Metrics) -> None:
    clock = ManualClock()
    room = Room(10, lambda: (0, 0), clock, meter=metrics)
    await room.wait()
    room.take(10)
    reading = asyncio.ensure_future(room.wait())
    await asyncio.sleep(0)
    clock.advance(2.5)
    await room.free(10)
    await reading
    found = exposed(metrics)
    assert found["tally_worker_room_waits_total"] == 1
    assert found["tally_worker_room_wait_seconds_total"] == 2.5


def leader(passes: list[Rolled | Exception], metrics: Metrics) -> Leader:
    made = test_leader.leader(test_leader.Owner(0), test_leader.Control(), passes)
    made._meter = metrics
    return made


async def test_a_leaders_pass_is_told_whether_it_fails_or_not(metrics: Metrics) -> None:
    passes: list[Rolled | Exception] = [TryAgainError("away"), Rolled(problems=["no"]), Rolled()]
    duty = asyncio.create_task(leader(passes, metrics).roll_up())
    done = 'tally_leader_pass_seconds_count{duty="rollup"}'
    await test_leader.run_until(duty, lambda: exposed(metrics)[done] >= 3)
    assert exposed(metrics)['tally_leader_pass_failures_total{duty="rollup"}'] == 2


def test_rebalances_that_follow_each_other_are_one_recovery(metrics: Metrics) -> None:
    clock = ManualClock()
    recoveries = Recoveries(metrics, clock)
    clock.advance(4)
    recoveries.end()
    recoveries.begin()
    clock.advance(1)
    recoveries.begin()
    clock.advance(1)
    recoveries.end()
    found = exposed(metrics)
    assert found["tally_worker_rebalances_total"] == 2
    assert found["tally_worker_recovery_seconds_count"] == 2
    assert found["tally_worker_recovery_seconds_sum"] == 6


async def test_a_loop_that_does_not_turn_is_in_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness_module, "TURN_S", 0.0)
    clock = ManualClock()
    liveness = Liveness(clock)
    clock.advance(2 * STUCK_S)
    assert liveness.trouble() is None, "it has not begun to turn"
    turning = asyncio.create_task(liveness.run())
    await asyncio.sleep(0.01)
    clock.advance(STUCK_S + 1)
    assert liveness.trouble() == "the event loop did not turn for 31 s"
    await asyncio.sleep(0.01)
    assert liveness.trouble() is None
    turning.cancel()
