"""Groups seen from outside: listed, described, moved and deleted."""

from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.integration.log.clients import TIMEOUT_S, Clients, error_code, unique
from tests.integration.log.members import Member, poll_until


def described(clients: Clients, group: str) -> Any:
    return clients.admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)


def group_with_commit(clients: Clients, topic: str, offset: int) -> str:
    group = unique("group")
    place = TopicPartition(topic, 0, offset)
    clients.consumer(group).commit(offsets=[place], asynchronous=False)
    return group


def test_a_group_is_listed_and_described_with_its_members(clients: Clients) -> None:
    topic, group = clients.topic(partitions=2), unique("group")
    member = Member(clients, topic, group, config={"client.id": "somebody"})
    poll_until([member], lambda: member.partitions == {0, 1}, "a stable group")
    listing = clients.admin.list_consumer_groups().result(TIMEOUT_S)
    assert group in {found.group_id for found in listing.valid}
    found = described(clients, group)
    assert found.state == ConsumerGroupState.STABLE
    assert found.partition_assignor == "range"
    assert [(m.client_id, m.member_id) for m in found.members] == [
        ("somebody", member.consumer.memberid())
    ]
    places = found.members[0].assignment.topic_partitions
    assert {(place.topic, place.partition) for place in places} == {(topic, 0), (topic, 1)}
    member.consumer.close()
    assert described(clients, group).state == ConsumerGroupState.EMPTY


def test_offsets_of_a_group_are_listed_and_moved_from_outside(clients: Clients) -> None:
    topic = clients.topic(partitions=2)
    group = group_with_commit(clients, topic, 5)

    def listed() -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        answer = clients.admin.list_consumer_group_offsets(asked)[group].result(TIMEOUT_S)
        return {place.partition: place.offset for place in answer.topic_partitions}

    assert listed() == {0: 5}
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])
    clients.admin.alter_consumer_group_offsets([moved])[group].result(TIMEOUT_S)
    assert listed() == {0: 2}


def test_an_empty_group_is_deleted_with_its_offsets(clients: Clients) -> None:
    topic = clients.topic()
    group = group_with_commit(clients, topic, 5)
    clients.admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    listing = clients.admin.list_consumer_groups().result(TIMEOUT_S)
    assert group not in {found.group_id for found in listing.valid}
    asked = [TopicPartition(topic, 0)]
    assert clients.consumer(group).committed(asked, timeout=TIMEOUT_S)[0].offset < 0


def test_a_living_or_unknown_group_is_not_deleted(clients: Clients) -> None:
    topic, group = clients.topic(), unique("group")
    member = Member(clients, topic, group)
    poll_until([member], lambda: member.partitions == {0}, "a living group")
    for name, code in (
        (group, KafkaError.NON_EMPTY_GROUP),
        (unique("nobody"), KafkaError.GROUP_ID_NOT_FOUND),
    ):
        with pytest.raises(KafkaException) as raised:
            clients.admin.delete_consumer_groups([name])[name].result(TIMEOUT_S)
        assert error_code(raised.value) == code
