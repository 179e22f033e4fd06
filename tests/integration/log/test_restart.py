"""The broker goes away and comes back: what it acknowledged is there, once, in order."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.integration.log.clients import (
    LOADING,
    TIMEOUT_S,
    Clients,
    configs,
    error_code,
    offset_of,
    unique,
)
from tests.integration.log.members import Member, poll_until, shared_out
from tests.integration.log.streams import Stream, problems
from tests.kit.brokers import Broker
from tests.kit.kafka import BROKERS_OF_LONG_FORMS

ONE_BROKER = pytest.mark.parametrize("shared_broker", BROKERS_OF_LONG_FORMS, indirect=True)
"""A real Kafka shows that tests ask for nothing unusual; that it is killed is enough for it."""

RECORDS = 5_000
REBALANCING = LOADING | {
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._ASSIGNMENT_LOST,
}


def test_a_producer_goes_on_after_a_kill_and_every_record_is_there_once_in_order(
    broker: Broker, clients: Clients
) -> None:
    produce_on(broker, clients, broker.kill)


@ONE_BROKER
def test_a_producer_goes_on_after_a_stop_and_every_record_is_there_once_in_order(
    broker: Broker, clients: Clients
) -> None:
    produce_on(broker, clients, broker.stop)


def produce_on(broker: Broker, clients: Clients, end: Callable[[], None]) -> None:
    topic = clients.topic()
    with Stream(clients, topic) as stream:
        stream.wait_for_more(RECORDS)
        end()
        broker.start()
        stream.wait_for_more(RECORDS)
        stream.finish()
    read = clients.read_to_end(topic)
    assert [offset_of(message) for message in read] == list(range(stream.sent))
    assert problems(stream, read) == []


def test_topics_configs_and_commits_survive_a_kill(broker: Broker, clients: Clients) -> None:
    topic, group = clients.topic(partitions=3, retention_ms=7_654_321), unique("group")
    delivery = clients.produce(topic, [b"%d" % n for n in range(50)], partition=2)
    place = TopicPartition(topic, 2, 33, metadata="note")
    clients.consumer(group).commit(offsets=[place], asynchronous=False)
    broker.kill()
    broker.start()
    with Clients(broker.bootstrap) as fresh:
        found = fresh.committed(group, topic, 2)
        assert (found.offset, found.metadata) == (33, "note")
        metadata = fresh.admin.list_topics(topic, timeout=TIMEOUT_S)
        assert sorted(metadata.topics[topic].partitions) == [0, 1, 2]
        assert configs(fresh, topic)["retention.ms"] == "7654321"
        read = fresh.read_to_end(topic, partition=2)
        assert [offset_of(m) for m in read] == delivery.offsets() == list(range(50))


def commit(members: list[Member]) -> bool:
    """Commit what each member read; False while a rebalance is under way."""
    for member in members:
        try:
            member.consumer.commit(asynchronous=False)
        except KafkaException as error:
            # One that joined anew may have nothing to commit: all was read by the other.
            if error_code(error) == KafkaError._NO_OFFSET:
                continue
            if error_code(error) not in REBALANCING:
                raise
            return False
    return True


def test_group_members_go_on_after_a_kill_without_missing_a_record(
    broker: Broker, clients: Clients
) -> None:
    read_on(broker, clients, broker.kill)


@ONE_BROKER
def test_group_members_go_on_after_a_stop_without_missing_a_record(
    broker: Broker, clients: Clients
) -> None:
    read_on(broker, clients, broker.stop)


def read_on(broker: Broker, clients: Clients, end: Callable[[], None]) -> None:
    topic, group = clients.topic(partitions=2), unique("group")
    members = [Member(clients, topic, group) for _ in range(2)]

    def values() -> set[bytes]:
        return {message.value() or b"" for member in members for message in member.messages}

    def read_all(expected: set[bytes]) -> Callable[[], bool]:
        return lambda: values() >= expected

    poll_until(members, lambda: shared_out(members, 2), "two share")
    first = {b"before %d" % n for n in range(20)}
    for partition in range(2):
        clients.produce(topic, sorted(first)[partition::2], partition=partition)
    poll_until(members, read_all(first), "records before the restart")
    for member in members:
        member.consumer.commit(asynchronous=False)
    end()
    broker.start()
    second = {b"after %d" % n for n in range(20)}
    for partition in range(2):
        clients.produce(topic, sorted(second)[partition::2], partition=partition)
    poll_until(members, read_all(first | second), "records after it")
    assert values() == first | second

    def all_is_committed() -> bool:
        places = (clients.committed(group, topic, partition) for partition in (0, 1))
        return commit(members) and [place.offset for place in places] == [20, 20]

    poll_until(members, all_is_committed, "commits are taken, of all that was read")


def test_deleted_records_and_topics_stay_deleted(broker: Broker, clients: Clients) -> None:
    topic, gone = clients.topic(), clients.topic()
    clients.produce(topic, [b"%d" % n for n in range(50)])
    place = TopicPartition(topic, 0, 20)
    clients.admin.delete_records([place])[place].result(TIMEOUT_S)
    clients.admin.delete_topics([gone])[gone].result(TIMEOUT_S)
    broker.stop()
    broker.start()
    with Clients(broker.bootstrap) as fresh:
        assert gone not in fresh.admin.list_topics(timeout=TIMEOUT_S).topics
        assert [offset_of(m) for m in fresh.read_to_end(topic)] == list(range(20, 50))
