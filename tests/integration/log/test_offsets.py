"""Timestamps and offsets: what a record's time is, and how a reader finds a place in the log."""

import time
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    OffsetSpec,
)

from tests.integration.log.clients import TIMEOUT_S, Clients, error_code, take, unique

# Within every default retention, so that no cleaner takes the records while a test reads them.
HOUR_AGO_MS = time.time_ns() // 1_000_000 - 3_600_000


def produce_at(clients: Clients, topic: str, times_ms: list[int], codec: str = "none") -> None:
    """One batch of records with these timestamps, their values being their positions."""
    producer = clients.producer({"linger.ms": 200, "compression.type": codec})
    for position, time_ms in enumerate(times_ms):
        producer.produce(topic, b"%d" % position, partition=0, timestamp=time_ms)
    assert producer.flush(TIMEOUT_S) == 0


def test_create_time_is_the_producers(clients: Clients) -> None:
    topic = clients.topic(message_timestamp_type="CreateTime")
    times_ms = [HOUR_AGO_MS, HOUR_AGO_MS + 5, HOUR_AGO_MS - 5]
    produce_at(clients, topic, times_ms)
    read = clients.read(topic, 3)
    assert [m.timestamp() for m in read] == [(TIMESTAMP_CREATE_TIME, at) for at in times_ms]


def test_create_time_is_the_default(clients: Clients) -> None:
    topic = clients.topic()
    produce_at(clients, topic, [HOUR_AGO_MS])
    assert clients.read(topic, 1)[0].timestamp() == (TIMESTAMP_CREATE_TIME, HOUR_AGO_MS)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_is_the_brokers_and_one_per_batch(clients: Clients, codec: str) -> None:
    topic = clients.topic(message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    produce_at(clients, topic, [HOUR_AGO_MS, HOUR_AGO_MS + 5, HOUR_AGO_MS - 5], codec)
    after_ms = time.time_ns() // 1_000_000
    stamps = {message.timestamp() for message in clients.read(topic, 3)}
    assert len(stamps) == 1
    kind, at_ms = stamps.pop()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before_ms <= at_ms <= after_ms


def test_the_delivery_report_tells_the_log_append_time(clients: Clients) -> None:
    topic = clients.topic(message_timestamp_type="LogAppendTime")
    delivery = clients.produce(topic, [b"value"])
    assert delivery.delivered[0].timestamp() == clients.read(topic, 1)[0].timestamp()


def test_watermarks_are_the_first_and_the_next_offset(clients: Clients) -> None:
    topic = clients.topic(partitions=2)
    reader = clients.consumer()
    place = TopicPartition(topic, 1)
    assert reader.get_watermark_offsets(place, timeout=TIMEOUT_S) == (0, 0)
    clients.produce(topic, [b"value"] * 7, partition=1)
    assert reader.get_watermark_offsets(place, timeout=TIMEOUT_S) == (0, 7)
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S) == (0, 0)


def test_watermarks_of_an_unknown_topic_are_an_error(clients: Clients) -> None:
    with pytest.raises(KafkaException) as raised:
        clients.consumer().get_watermark_offsets(
            TopicPartition(unique("nowhere"), 0), timeout=TIMEOUT_S
        )
    assert error_code(raised.value) in {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_time_finds_the_first_record_at_or_after_it(clients: Clients, codec: str) -> None:
    topic = clients.topic()
    for batch in range(3):
        start_ms = HOUR_AGO_MS + batch * 1000
        produce_at(clients, topic, [start_ms + 10 * n for n in range(10)], codec)
    reader = clients.consumer()

    def offset_at(time_ms: int) -> int:
        asked = [TopicPartition(topic, 0, time_ms)]
        return reader.offsets_for_times(asked, timeout=TIMEOUT_S)[0].offset

    assert offset_at(HOUR_AGO_MS - 1) == 0
    assert offset_at(HOUR_AGO_MS) == 0
    assert offset_at(HOUR_AGO_MS + 1) == 1
    assert offset_at(HOUR_AGO_MS + 55) == 6
    assert offset_at(HOUR_AGO_MS + 91) == 10
    assert offset_at(HOUR_AGO_MS + 2090) == 29
    assert offset_at(HOUR_AGO_MS + 2091) == OFFSET_END


def test_a_time_finds_records_whose_times_are_out_of_order(clients: Clients) -> None:
    topic = clients.topic()
    produce_at(clients, topic, [HOUR_AGO_MS + at for at in (50, 10, 90, 20)])
    asked = [TopicPartition(topic, 0, HOUR_AGO_MS + 60)]
    found = clients.consumer().offsets_for_times(asked, timeout=TIMEOUT_S)
    assert found[0].offset == 2


def test_admin_lists_earliest_latest_and_by_time(clients: Clients) -> None:
    topic = clients.topic()
    produce_at(clients, topic, [HOUR_AGO_MS + 10 * n for n in range(10)])
    place = TopicPartition(topic, 0)

    def listed(spec: Any) -> int:
        answer = clients.admin.list_offsets({place: spec})[place].result(TIMEOUT_S)
        offset: int = answer.offset
        return offset

    specs: Any = OffsetSpec  # its functions carry no types
    assert listed(specs.earliest()) == 0
    assert listed(specs.latest()) == 10
    assert listed(specs.for_timestamp(HOUR_AGO_MS + 41)) == 5


def test_a_reader_starts_at_the_beginning_or_the_end(clients: Clients) -> None:
    topic = clients.topic()
    clients.produce(topic, [b"old"] * 5)
    first = clients.consumer()
    first.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert take(first, 1)[0].offset() == 0
    last = clients.consumer(config={"enable.partition.eof": True})
    last.assign([TopicPartition(topic, 0, OFFSET_END)])
    end = last.poll(TIMEOUT_S)
    assert end is not None
    error = end.error()
    assert error is not None
    assert error.code() == KafkaError._PARTITION_EOF
    clients.produce(topic, [b"new"])
    assert [(m.offset(), m.value()) for m in take(last, 1)] == [(5, b"new")]


def test_seek_goes_back_and_forth(clients: Clients) -> None:
    topic = clients.topic()
    clients.produce(topic, [b"%d" % n for n in range(100)])
    reader = clients.consumer()
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [m.offset() for m in take(reader, 10)] == list(range(10))
    for start in (90, 3, 50):
        reader.seek(TopicPartition(topic, 0, start))
        assert [m.offset() for m in take(reader, 5)] == list(range(start, start + 5))


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 0), ("latest", 5)])
def test_a_reader_beyond_the_end_is_reset(clients: Clients, policy: str, expected: int) -> None:
    topic = clients.topic()
    clients.produce(topic, [b"old"] * 5)
    reader = clients.consumer(config={"auto.offset.reset": policy, "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, 0, 1000)])
    message = reader.poll(TIMEOUT_S)
    assert message is not None
    assert message.offset() == expected


def test_a_long_poll_returns_as_soon_as_a_record_arrives(clients: Clients) -> None:
    topic = clients.topic()
    reader = clients.consumer(config={"fetch.wait.max.ms": 20_000, "fetch.min.bytes": 1})
    reader.assign([TopicPartition(topic, 0, 0)])
    assert reader.poll(0.5) is None
    clients.produce(topic, [b"now"])
    produced_s = time.monotonic()
    assert take(reader, 1)[0].value() == b"now"
    assert time.monotonic() - produced_s < 15, "at the end of the wait it would take 19"
