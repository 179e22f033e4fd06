"""A producer's follower on a real log: what it refuses, and that it sees every change.

One log for all of them, in their order: it has nothing in it at first.
"""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.errors import OperatorError, TryAgainError
from pipeline.planning import following
from pipeline.planning.following import PlanFollower
from pipeline.rules import CountingRules, FamilyRules
from schemas.addresses import KafkaAddress
from tests.kit.brokers import Broker
from tests.kit.waiting import eventually

PARTITIONS = 4
RULES = CountingRules(7, families={"fixed": FamilyRules(shards=3)}, id_partitions=2)


def write(broker: Broker, key: str, value: bytes | None) -> None:
    record = LogRecord(topics.SHARD_PLAN, 0, value, key.encode())
    write_records(KafkaAddress(broker.bootstrap), [record], SystemClock())


def split(broker: Broker, counter: str, n: int | None) -> None:
    write(broker, f"shards:{counter}", None if n is None else json.dumps({"n": n}).encode())


@pytest.fixture
def follower(broker: Broker) -> Iterator[PlanFollower]:
    """One that was started on a plan with rules and one split counter."""
    write(broker, "rules", RULES.bytes)
    split(broker, "likes:a", 4)
    split(broker, "likes:b", None)
    follower = PlanFollower(KafkaAddress(broker.bootstrap))
    follower.start()
    yield follower
    follower.stop()


def test_it_starts_only_where_it_is_known_where_ids_go(broker: Broker) -> None:
    with pytest.raises(OperatorError, match="does not exist yet"):
        PlanFollower(KafkaAddress(broker.bootstrap)).start()
    topics.ensure_topics(KafkaAddress(broker.bootstrap), 1, PARTITIONS)
    first = PlanFollower(KafkaAddress(broker.bootstrap))
    first.start()
    assert (first.plan.partitions, first.plan.id_partitions) == (PARTITIONS, PARTITIONS)
    write_records(
        KafkaAddress(broker.bootstrap), [LogRecord(topics.INCREMENTS, 1, b"{}")], SystemClock()
    )
    with pytest.raises(OperatorError, match="does not say by how many partitions"):
        PlanFollower(KafkaAddress(broker.bootstrap)).start()
    write(broker, "rules", RULES.bytes)
    eventually(lambda: first.plan.id_partitions == 2, "the first rules fix where ids go")
    first.stop()


def test_a_plan_is_known_when_it_has_started_and_not_before(follower: PlanFollower) -> None:
    plan = follower.plan
    assert (plan.partitions, plan.id_partitions, plan.rules) == (PARTITIONS, 2, RULES)
    counters = ("likes:a", "likes:b", "fixed:a")
    assert [plan.shards_of(counter) for counter in counters] == [4, 1, 3]
    with pytest.raises(RuntimeError, match="start"):
        _ = PlanFollower(KafkaAddress("127.0.0.1:1")).plan


def hint(broker: Broker, until_ms: int) -> None:
    write(broker, "hint:likes:c", json.dumps({"n": 3, "until_ms": until_ms}).encode())


def test_it_sees_every_change(follower: PlanFollower, broker: Broker) -> None:
    before = follower.plan
    split(broker, "likes:b", 2)
    eventually(lambda: follower.plan.shards_of("likes:b") == 2, "a counter is split")
    split(broker, "likes:a", None)
    eventually(lambda: follower.plan.shards_of("likes:a") == 1, "a counter is whole again")
    hint(broker, SystemClock().now_ms() + 3_600_000)
    eventually(lambda: follower.plan.shards_of("likes:c") == 3, "a hint holds")
    until_ms = SystemClock().now_ms() + 1_000
    hint(broker, until_ms)
    eventually(lambda: not follower.plan.hints, "a hint that is over is forgotten")
    assert SystemClock().now_ms() >= until_ms
    assert before.shards == {"likes:a": 4}
    assert follower.plan.shards == {"likes:b": 2}


def test_it_goes_on_when_kafka_was_away(follower: PlanFollower, broker: Broker) -> None:
    broker.kill()
    kept = follower.plan
    with pytest.raises(TryAgainError):
        PlanFollower(KafkaAddress(broker.bootstrap)).start()
    broker.start()
    split(broker, "likes:b", 2)
    eventually(lambda: follower.plan.shards_of("likes:b") == 2, "followed again")
    assert follower.plan.shards == {**kept.shards, "likes:b": 2}


def test_partitions_that_are_added_are_seen(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PARTITIONS_INTERVAL_S", 0.2)
    split(broker, "likes:a", 16)
    follower = PlanFollower(KafkaAddress(broker.bootstrap))
    follower.start()
    assert follower.plan.shards_of("likes:a") == PARTITIONS
    admin = topics.admin_client(KafkaAddress(broker.bootstrap))
    admin.create_partitions([NewPartitions(topics.INCREMENTS, 7)])[topics.INCREMENTS].result(10)
    eventually(lambda: follower.plan.shards_of("likes:a") == 7, "they are used")
    assert follower.plan.id_partitions == 2
    follower.stop()


def test_a_plan_that_was_made_anew_is_read_anew(follower: PlanFollower, broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([topics.SHARD_PLAN])[topics.SHARD_PLAN].result(10)
    eventually(lambda: _is_made(broker), "the topic is there again")
    split(broker, "likes:c", 2)
    eventually(lambda: follower.plan.shards == {"likes:c": 2}, "only the new plan holds")
    assert follower.plan.id_partitions == 2


def _is_made(broker: Broker) -> bool:
    try:
        topics.ensure_topics(KafkaAddress(broker.bootstrap), 1, PARTITIONS)
    except (TryAgainError, KafkaException):
        return False
    admin = topics.admin_client(KafkaAddress(broker.bootstrap))
    return topics.SHARD_PLAN in topics.partition_counts(admin)


def test_rules_that_cannot_be_read_are_refused_at_the_start_and_passed_over_later(
    follower: PlanFollower, broker: Broker
) -> None:
    write(broker, "rules", b"junk")
    split(broker, "likes:b", 2)
    eventually(lambda: follower.plan.shards_of("likes:b") == 2, "what follows is seen")
    assert follower.plan.rules == RULES
    with pytest.raises(OperatorError, match="not counting rules"):
        PlanFollower(KafkaAddress(broker.bootstrap)).start()
