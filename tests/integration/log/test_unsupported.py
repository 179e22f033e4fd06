"""Features a broker may lack: it answers soon, for good or ill, and no client hangs."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.log.clients import IDEMPOTENT, TIMEOUT_S, Clients, take, unique

SOON_S = 30
"""A real Kafka makes the topic of transactions when the first one begins, which takes a while."""


def answer_within(call: Callable[[], Any]) -> KafkaError | None:
    """Run the call: None if it worked, its error if not; fails the test if it took too long."""
    started_s = time.monotonic()
    try:
        call()
        error = None
    except KafkaException as raised:
        error = raised.args[0]
        assert isinstance(error, KafkaError)
    assert time.monotonic() - started_s < SOON_S
    return error


def test_transactions_work_or_fail_for_good(clients: Clients) -> None:
    topic = clients.topic()
    producer = clients.producer(IDEMPOTENT | {"transactional.id": unique("transaction")})
    error = answer_within(lambda: producer.init_transactions(SOON_S))
    if error is not None:
        assert error.fatal(), error
        assert not error.retriable()
        return
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    assert [message.value() for message in clients.read(topic, 1)] == [b"value"]


def test_the_consumer_group_protocol_of_kip_848_works_or_fails_for_good(clients: Clients) -> None:
    topic = clients.topic()
    clients.produce(topic, [b"value"])
    reader = Consumer(
        {
            "bootstrap.servers": clients.bootstrap,
            "group.id": unique("group"),
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        reader.subscribe([topic])
        message = reader.poll(SOON_S)
        assert message is not None, "neither a record nor an error"
        error = message.error()
        if error is None:
            assert message.value() == b"value"
        else:
            # The consumer's own word for a fatal error is this code, without the mark of one.
            assert error.fatal() or error.code() == KafkaError._FATAL, error
    finally:
        reader.close()


def test_access_lists_are_empty_or_refused_for_good(clients: Clients) -> None:
    anybody: Any = None
    everything = AclBindingFilter(
        ResourceType.ANY,
        anybody,
        ResourcePatternType.ANY,
        anybody,
        anybody,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    asked = clients.admin.describe_acls(everything, request_timeout=SOON_S)
    error = answer_within(lambda: asked.result(SOON_S))
    if error is None:
        assert asked.result(0) == []
    else:
        final = {KafkaError.SECURITY_DISABLED, KafkaError._UNSUPPORTED_FEATURE}
        assert error.code() in final


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_either_isolation_level_reads_plain_records(clients: Clients, isolation: str) -> None:
    topic = clients.topic()
    clients.produce(topic, [b"%d" % n for n in range(10)])
    reader = clients.consumer(config={"isolation.level": isolation})
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [message.offset() for message in take(reader, 10)] == list(range(10))
