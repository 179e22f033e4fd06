"""A worker that leads plans shards by what producers report, and producers follow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.control.shard_plan import read_plan
from pipeline.planning.following import PlanFollower
from pipeline.planning.plan import Split
from pipeline.sharding import counter_partition
from schemas.addresses import KafkaAddress
from tests.integration.planning.reporters import Reporter
from tests.kit.brokers import Broker
from tests.kit.kafka import BROKERS_OF_LONG_FORMS
from tests.kit.processes import wait_until
from tests.kit.tally import RunningTally, start_worker, tally_on

PARTITIONS = 8
PATIENCE_S = 60
SETTINGS = {
    "TALLY_PARTITIONS": str(PARTITIONS),
    "TALLY_SHARD_RATE_MAX": "1000",
    "TALLY_SHARD_COOL_S": "5",
}

pytestmark = [
    pytest.mark.parametrize("broker", BROKERS_OF_LONG_FORMS, indirect=True),
    pytest.mark.timeout(300),  # with the start of all servers
]


@pytest.fixture
def hot(request: pytest.FixtureRequest) -> str:
    """A counter of the test's own."""
    return f"likes:{request.node.name}"


@pytest.fixture(scope="module")
def tally(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    folder = tmp_path_factory.mktemp("plan")
    with tally_on(broker, folder, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def follower(tally: RunningTally) -> Iterator[PlanFollower]:
    follower = PlanFollower(KafkaAddress(tally.kafka))
    follower.start()
    yield follower
    follower.stop()


def followed(follower: PlanFollower, counter: str, n: int) -> None:
    wait_until(
        lambda: follower.plan.shards_of(counter) == n,
        f"{counter} has {n} shards",
        timeout_s=PATIENCE_S,
    )


def test_a_hot_counter_is_split_shown_and_merged_again(
    tally: RunningTally, follower: PlanFollower, hot: str
) -> None:
    assert tally.json("shard") == {
        "partitions": PARTITIONS,
        "counters": [],
        "over_sharded": {},
    }
    with Reporter(tally.kafka, {hot: 900}), Reporter(tally.kafka, {hot: 600, "likes:b": 7}):
        followed(follower, hot, 4)
        assert follower.plan.shards == {hot: 4}
        [hottest, cold] = tally.json("shard")["counters"]
        assert (hottest["counter"], hottest["shards"], hottest["why"]) == (hot, 4, "rate")
        assert (cold["counter"], cold["shards"], cold["rate"]) == ("likes:b", 1, 7.0)
        plan = tally.healthy_status()["shard_plan"]
        assert plan["hottest"] == {"counter": hot, "rate": 1500.0, "shards": 4}
        assert (plan["split"], plan["most_split"]["counter"]) == (1, hot)
        lines = tally.run("shard", hot).stdout.splitlines()
        places = [str(counter_partition(hot, shard, PARTITIONS)) for shard in range(4)]
        assert lines[0] == f"{hot}: 4 shards, on partitions {', '.join(places)}"
        assert lines[1:3] == ["rate         1,500 rows/s, 375 per shard", "planned      4 (rate)"]
        # More than eight partitions can take.
        with Reporter(tally.kafka, {hot: 9_000}):
            followed(follower, hot, PARTITIONS)
            assert any("no partition is left" in text for text in tally.healthy_status()["remarks"])
    followed(follower, hot, 1)
    assert hot not in follower.plan.shards


def test_hints_hold_until_they_are_over_or_taken_back(
    tally: RunningTally, follower: PlanFollower, hot: str
) -> None:
    assert tally.json("shard", hot, "--n", "3", "--for", "1h")["shards"] == 3
    followed(follower, hot, 3)
    found = tally.json("shard", hot, "--expect", "3500")
    assert (found["hint"]["n"], found["hint"]["by"], found["capped"]) == (8, "expect", False)
    followed(follower, hot, 8)
    shown = tally.json("shard", hot)
    assert (shown["planned"], shown["hint"]["n"], shown["over_sharded"]) == (1, 8, False)
    tally.run("shard", hot, "--n", "2", "--for", "1s")
    followed(follower, hot, 1)
    wait_until(
        lambda: not read_plan(KafkaAddress(tally.kafka)).hints,
        "the leader takes away what is over",
        timeout_s=PATIENCE_S,
    )
    capped = tally.run("shard", hot, "--expect", "1000000").stdout
    assert "there are only 8 partitions, so it has 8 shards" in capped
    followed(follower, hot, 8)
    assert tally.json("shard", hot, "--clear") == {"counter": hot, "cleared": True}
    followed(follower, hot, 1)
    assert tally.json("shard", hot, "--clear") == {"counter": hot, "cleared": False}


def test_a_worker_that_is_killed_is_followed_by_one_that_keeps_the_plan(
    tally: RunningTally, follower: PlanFollower, hot: str, tmp_path: Path
) -> None:
    with Reporter(tally.kafka, {hot: 1_900}):
        followed(follower, hot, 4)
        before = read_plan(KafkaAddress(tally.kafka)).splits[hot]
        tally.workers[0].kill()
        tally.workers[0] = start_worker(tally, tmp_path / "second.txt")
        with Reporter(tally.kafka, {"likes:next": 2_100}):
            followed(follower, "likes:next", 8)
            after = read_plan(KafkaAddress(tally.kafka)).splits
    assert after[hot] == before == Split(4, 1_900, "rate", before.at_ms)
    followed(follower, hot, 1)
    followed(follower, "likes:next", 1)


def test_the_plan_is_made_and_followed_while_kafka_restarts(
    tally: RunningTally, follower: PlanFollower, hot: str, broker: Broker
) -> None:
    broker.kill()
    broker.start()
    with Reporter(tally.kafka, {hot: 1_900}):
        followed(follower, hot, 4)
    assert tally.workers[0].running
