"""Records deleted on request: the first offset moves, and readers behind it go by their policy."""

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.integration.log.clients import TIMEOUT_S, Clients, error_code, refusal, take

if TYPE_CHECKING:
    from concurrent.futures import Future


def delete_before(clients: Clients, topic: str, offset: int) -> "Future[Any]":
    place = TopicPartition(topic, 0, offset)
    asked: Future[Any] = clients.admin.delete_records([place])[place]
    return asked


def test_deleted_records_are_gone_and_the_first_offset_moves(clients: Clients) -> None:
    topic = clients.topic()
    clients.produce(topic, [b"%d" % n for n in range(100)])
    assert delete_before(clients, topic, 60).result(TIMEOUT_S).low_watermark == 60
    reader = clients.consumer()
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S) == (60, 100)
    assert [m.offset() for m in clients.read_to_end(topic)] == list(range(60, 100))
    assert refusal(delete_before(clients, topic, 101)) == KafkaError.OFFSET_OUT_OF_RANGE
    assert delete_before(clients, topic, -1).result(TIMEOUT_S).low_watermark == 100
    assert clients.read_to_end(topic) == []


def test_a_reader_at_a_deleted_offset_goes_by_its_reset_policy(clients: Clients) -> None:
    topic = clients.topic()
    clients.produce(topic, [b"%d" % n for n in range(100)])
    delete_before(clients, topic, 60).result(TIMEOUT_S)

    def first_after_reset(policy: str) -> int | None:
        config = {"auto.offset.reset": policy, "enable.partition.eof": policy == "latest"}
        reader = clients.consumer(config=config)
        reader.assign([TopicPartition(topic, 0, 10)])
        if policy == "latest":
            # It says when it is at the end: what comes later is after the reset.
            end = reader.poll(TIMEOUT_S)
            assert end is not None
            error = end.error()
            assert error is not None, "a record before the end"
            assert (error.code(), end.offset()) == (KafkaError._PARTITION_EOF, 100)
            clients.produce(topic, [b"new"])
        return take(reader, 1)[0].offset()

    assert first_after_reset("earliest") == 60
    assert first_after_reset("latest") == 100
    with pytest.raises(KafkaException) as raised:
        first_after_reset("error")
    assert error_code(raised.value) == KafkaError._AUTO_OFFSET_RESET
