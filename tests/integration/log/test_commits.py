"""Committed offsets: where a group goes on, and whose commits are refused."""

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from tests.integration.log.clients import SHORT_SESSION_S, Clients, error_code, take, unique
from tests.integration.log.members import Member, poll_until
from tests.integration.log.wire import Wire
from tests.kit.brokers import Broker
from tests.kit.processes import wait_until

ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27


def test_a_group_goes_on_where_it_committed(clients: Clients) -> None:
    topic, group = clients.topic(), unique("group")
    clients.produce(topic, [b"%d" % n for n in range(100)])
    first = Member(clients, topic, group)
    poll_until([first], lambda: len(first.messages) >= 40, "forty records")
    first.consumer.commit(message=first.messages[39], asynchronous=False)
    first.consumer.close()
    second = Member(clients, topic, group)
    poll_until([second], lambda: len(second.messages) == 60, "the rest")
    assert [m.offset() for m in second.messages] == list(range(40, 100))


def test_a_group_without_commits_has_no_offset(clients: Clients) -> None:
    assert clients.committed(unique("group"), clients.topic()).offset == OFFSET_INVALID


def test_commits_keep_their_metadata_and_may_go_back(clients: Clients) -> None:
    topic, group = clients.topic(partitions=2), unique("group")
    reader = clients.consumer(group)
    reader.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    for offset, note in ((7, "seven"), (3, "three, ünï")):
        place = TopicPartition(topic, 1, offset, metadata=note)
        reader.commit(offsets=[place], asynchronous=False)
        found = clients.committed(group, topic, 1)
        assert (found.offset, found.metadata) == (offset, note)
    assert clients.committed(group, topic, 0).offset == OFFSET_INVALID


def test_a_standalone_reader_commits_without_joining(clients: Clients) -> None:
    topic, group = clients.topic(), unique("group")
    clients.produce(topic, [b"value"] * 10)
    reader = clients.consumer(group)
    reader.assign([TopicPartition(topic, 0, 0)])
    take(reader, 4)
    reader.commit(asynchronous=False)
    assert clients.committed(group, topic).offset == 4


def test_a_standalone_commit_into_a_living_group_is_refused(clients: Clients) -> None:
    topic, group = clients.topic(), unique("group")
    member = Member(clients, topic, group)
    poll_until([member], lambda: member.partitions == {0}, "a living group")
    stranger = clients.consumer(group)
    stranger.assign([TopicPartition(topic, 0)])
    with pytest.raises(KafkaException) as raised:
        stranger.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert error_code(raised.value) == KafkaError.UNKNOWN_MEMBER_ID
    member.poll()
    member.consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    assert clients.committed(group, topic).offset == 2


def test_a_commit_to_an_unknown_topic_is_refused(clients: Clients) -> None:
    reader = clients.consumer(unique("group"))
    with pytest.raises(KafkaException) as raised:
        reader.commit(offsets=[TopicPartition(unique("nowhere"), 0, 5)], asynchronous=False)
    assert error_code(raised.value) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_commits_of_an_old_generation_or_of_strangers_are_refused(
    broker: Broker, clients: Clients
) -> None:
    topic, group = clients.topic(), unique("group")
    with Wire(broker.bootstrap) as wire:
        old = wire.join_alone(group)
        assert wire.commit(group, old.generation, old.member, topic, 10) == 0
        new = wire.join(group, old.member)
        assert wire.sync(group, new) == 0
        assert (new.member, new.generation) == (old.member, old.generation + 1)
        assert wire.commit(group, old.generation, old.member, topic, 99) == ILLEGAL_GENERATION
        assert wire.commit(group, new.generation, "stranger", topic, 99) == UNKNOWN_MEMBER_ID
        assert wire.commit(group, -1, "", topic, 99) == UNKNOWN_MEMBER_ID
        assert wire.heartbeat(group, old.generation, old.member) == ILLEGAL_GENERATION
        assert wire.heartbeat(group, new.generation, new.member) == 0
        assert clients.committed(group, topic).offset == 10
        assert wire.commit(group, new.generation, new.member, topic, 11) == 0
    assert clients.committed(group, topic).offset == 11


def test_a_commit_is_taken_while_a_rebalance_is_being_prepared(
    broker: Broker, clients: Clients
) -> None:
    topic, group = clients.topic(), unique("group")
    with Wire(broker.bootstrap) as wire, Wire(broker.bootstrap) as newcomer:
        member = wire.join_alone(group)
        newcomer.send_join(group)
        wait_until(
            lambda: (
                wire.heartbeat(group, member.generation, member.member) == REBALANCE_IN_PROGRESS
            ),
            "the member is told of the rebalance",
        )
        assert wire.commit(group, member.generation, member.member, topic, 5) == 0
        rejoined = wire.join(group, member.member)
        other = newcomer.receive_join()
        assert (rejoined.error, other.error) == (0, 0)
        assert rejoined.generation == other.generation == member.generation + 1
        assert rejoined.member != other.member
    assert clients.committed(group, topic).offset == 5


def test_a_silent_member_is_forgotten_and_must_join_anew(broker: Broker, clients: Clients) -> None:
    topic, group = clients.topic(), unique("group")
    with Wire(broker.bootstrap) as wire:
        silent = wire.join_alone(group, timeout_ms=SHORT_SESSION_S * 1000)
        heir = Member(clients, topic, group)
        poll_until([heir], lambda: heir.partitions == {0}, "the heir takes over")
        assert wire.heartbeat(group, silent.generation, silent.member) == UNKNOWN_MEMBER_ID
        refused = wire.commit(group, silent.generation, silent.member, topic, 99)
        assert refused in {UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION}
    assert clients.committed(group, topic).offset == OFFSET_INVALID
