"""Topics made, changed and removed through the admin interface."""

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.integration.log.clients import TIMEOUT_S, Clients, configs, refusal, unique
from tests.kit.processes import wait_until

if TYPE_CHECKING:
    from concurrent.futures import Future


def create(clients: Clients, topic: NewTopic, **options: bool) -> "Future[Any]":
    made: Future[Any] = clients.admin.create_topics([topic], **options)[topic.topic]
    return made


def exists(clients: Clients, topic: str) -> bool:
    return topic in clients.admin.list_topics(timeout=TIMEOUT_S).topics


def test_a_topic_has_the_partitions_and_configs_it_was_made_with(clients: Clients) -> None:
    topic = clients.topic(partitions=5, retention_ms=1234567, cleanup_policy="compact")
    metadata = clients.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    assert sorted(metadata.partitions) == list(range(5))
    assert all(partition.leader >= 0 for partition in metadata.partitions.values())
    found = configs(clients, topic)
    assert (found["retention.ms"], found["cleanup.policy"]) == ("1234567", "compact")


def test_a_described_topic_shows_the_defaults_too(clients: Clients) -> None:
    found = configs(clients, clients.topic())
    assert found["cleanup.policy"] == "delete"
    assert found["message.timestamp.type"] == "CreateTime"
    assert found["retention.ms"] == "604800000"
    assert found["retention.bytes"] == "-1"
    assert found["max.message.bytes"] == "1048588"


def test_a_second_topic_of_the_same_name_is_refused(clients: Clients) -> None:
    topic = clients.topic()
    assert refusal(create(clients, NewTopic(topic, 3, 1))) == KafkaError.TOPIC_ALREADY_EXISTS
    assert len(clients.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == 1


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ("no.such.config", "1"),
        ("retention.ms", "soon"),
        ("cleanup.policy", "shred"),
        ("message.timestamp.type", "Whenever"),
        ("max.message.bytes", "-5"),
    ],
)
def test_an_invalid_config_is_refused_and_no_topic_is_made(
    clients: Clients, config: str, value: str
) -> None:
    topic = unique("topic")
    asked = create(clients, NewTopic(topic, 1, 1, config={config: value}))
    assert refusal(asked) == KafkaError.INVALID_CONFIG
    assert not exists(clients, topic)


@pytest.mark.parametrize("name", ["", "with space", "a/b", "..", "x" * 250])
def test_an_invalid_name_is_refused(clients: Clients, name: str) -> None:
    codes = {KafkaError.TOPIC_EXCEPTION, KafkaError._INVALID_ARG}
    assert refusal(create(clients, NewTopic(name, 1, 1))) in codes


def test_no_partitions_or_too_many_replicas_are_refused(clients: Clients) -> None:
    none = create(clients, NewTopic(unique("topic"), 0, 1))
    assert refusal(none) == KafkaError.INVALID_PARTITIONS
    many = create(clients, NewTopic(unique("topic"), 1, 3))
    assert refusal(many) == KafkaError.INVALID_REPLICATION_FACTOR


def test_validate_only_checks_and_makes_nothing(clients: Clients) -> None:
    topic = unique("topic")
    create(clients, NewTopic(topic, 2, 1), validate_only=True).result(TIMEOUT_S)
    assert not exists(clients, topic)
    bad = NewTopic(topic, 2, 1, config={"retention.ms": "soon"})
    assert refusal(create(clients, bad, validate_only=True)) == KafkaError.INVALID_CONFIG


def test_partitions_are_added_but_never_taken_away(clients: Clients) -> None:
    topic = clients.topic(partitions=2)
    clients.produce(topic, [b"before"], partition=1)
    clients.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(TIMEOUT_S)
    wait_until(
        lambda: len(clients.admin.list_topics(topic, timeout=30).topics[topic].partitions) == 4,
        "four partitions",
    )
    clients.produce(topic, [b"after"], partition=3)
    assert [m.value() for m in clients.read(topic, 1, partition=1)] == [b"before"]
    assert [m.value() for m in clients.read(topic, 1, partition=3)] == [b"after"]
    fewer = clients.admin.create_partitions([NewPartitions(topic, 3)])[topic]
    assert refusal(fewer) == KafkaError.INVALID_PARTITIONS


def test_partitions_of_an_unknown_topic_are_refused(clients: Clients) -> None:
    topic = unique("nowhere")
    asked = clients.admin.create_partitions([NewPartitions(topic, 3)])[topic]
    assert refusal(asked) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_deleted_topic_is_gone_and_its_name_starts_anew(clients: Clients) -> None:
    topic = clients.topic()
    clients.produce(topic, [b"old"] * 10)
    clients.admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    wait_until(lambda: not exists(clients, topic), "the topic is gone")
    assert refusal(clients.admin.delete_topics([topic])[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    create(clients, NewTopic(topic, 1, 1)).result(TIMEOUT_S)
    clients.produce(topic, [b"new"])
    assert [(m.offset(), m.value()) for m in clients.read_to_end(topic)] == [(0, b"new")]


def test_altered_configs_take_effect_one_by_one(clients: Clients) -> None:
    topic = clients.topic(retention_ms=1000000, max_message_bytes=50000)

    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> "Future[Any]":
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        answer: Future[Any] = clients.admin.incremental_alter_configs([resource])[resource]
        return answer

    alter("retention.ms", "2000000", AlterConfigOpType.SET).result(TIMEOUT_S)
    wait_until(lambda: configs(clients, topic)["retention.ms"] == "2000000", "the new retention")
    assert configs(clients, topic)["max.message.bytes"] == "50000"
    alter("retention.ms", None, AlterConfigOpType.DELETE).result(TIMEOUT_S)
    wait_until(lambda: configs(clients, topic)["retention.ms"] == "604800000", "the default")
    soon = alter("retention.ms", "soon", AlterConfigOpType.SET)
    assert refusal(soon) == KafkaError.INVALID_CONFIG


def test_configs_of_an_unknown_topic_are_refused(clients: Clients) -> None:
    resource = ConfigResource(ResourceType.TOPIC, unique("nowhere"))
    asked = clients.admin.describe_configs([resource])[resource]
    assert refusal(asked) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_metadata_of_an_unknown_topic_makes_none_unless_asked_to(clients: Clients) -> None:
    topic = unique("nowhere")
    reader = clients.consumer(config={"allow.auto.create.topics": False})
    reader.subscribe([topic])
    reader.poll(1)
    assert not exists(clients, topic)


def test_the_cluster_has_one_node_that_is_its_controller(clients: Clients) -> None:
    metadata = clients.admin.list_topics(timeout=TIMEOUT_S)
    assert len(metadata.brokers) == 1
    assert metadata.controller_id in metadata.brokers
    assert f"{metadata.brokers[metadata.controller_id]}".startswith(clients.bootstrap)
    assert metadata.cluster_id
