"""What a producer is promised: every record comes back as it was sent, in order, or is refused."""

import os

import pytest
from confluent_kafka import KafkaError

from tests.integration.log.clients import TIMEOUT_S, Clients, Delivery, unique

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_come_back_in_order_whatever_the_acks(clients: Clients, acks: str) -> None:
    topic = clients.topic()
    values = [b"%d" % n for n in range(500)]
    clients.produce(topic, values, config={"acks": acks})
    read = clients.read(topic, len(values))
    assert [message.value() for message in read] == values
    assert [message.offset() for message in read] == list(range(500))


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_whatever_the_compression(clients: Clients, codec: str) -> None:
    topic = clients.topic()
    values = [b"value %d " % n * 20 for n in range(300)]
    delivery = clients.produce(topic, values, config={"compression.type": codec, "linger.ms": 50})
    assert delivery.offsets() == list(range(300))
    assert [message.value() for message in clients.read(topic, 300)] == values


def test_a_reader_may_start_in_the_middle_of_a_compressed_batch(clients: Clients) -> None:
    topic = clients.topic()
    values = [b"%d" % n for n in range(200)]
    clients.produce(topic, values, config={"compression.type": "zstd", "linger.ms": 200})
    read = clients.read(topic, 50, offset=150)
    assert [message.value() for message in read] == values[150:]


def test_null_and_empty_keys_and_values_stay_apart(clients: Clients) -> None:
    topic = clients.topic()
    pairs = [(None, None), (b"", None), (None, b""), (b"", b""), (b"key", None), (None, b"value")]
    clients.produce(topic, [value for _, value in pairs], key=lambda n: pairs[n][0])
    read = clients.read(topic, len(pairs))
    assert [(message.key(), message.value()) for message in read] == pairs


def test_headers_keep_their_order_duplicates_and_null_values(clients: Clients) -> None:
    topic = clients.topic()
    headers: list[tuple[str, str | bytes | None]] = [
        ("a", b"1"),
        ("b", None),
        ("a", b"2"),
        ("leer", b""),
        ("ünï", bytes(range(256))),
    ]
    producer, delivery = clients.producer(), Delivery()
    producer.produce(topic, b"value", headers=headers, on_delivery=delivery)
    assert producer.flush(TIMEOUT_S) == 0
    assert delivery.errors == []
    assert clients.read(topic, 1)[0].headers() == headers


def test_a_large_message_comes_back_whole(clients: Clients) -> None:
    topic = clients.topic(max_message_bytes=8_000_000)
    value = os.urandom(5_000_000)
    clients.produce(topic, [b"before", value, b"after"], config={"message.max.bytes": 8_000_000})
    assert [m.value() for m in clients.read(topic, 3)] == [b"before", value, b"after"]


def test_a_message_above_the_topics_limit_is_refused_and_the_next_is_taken(
    clients: Clients,
) -> None:
    topic = clients.topic(max_message_bytes=10_000)
    producer, delivery = clients.producer(), Delivery()
    producer.produce(topic, os.urandom(20_000), on_delivery=delivery)
    assert producer.flush(TIMEOUT_S) == 0
    assert [error.code() for error in delivery.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    producer.produce(topic, b"small", on_delivery=delivery)
    assert producer.flush(TIMEOUT_S) == 0
    assert [message.value() for message in clients.read(topic, 1)] == [b"small"]


def test_the_default_limit_is_about_one_megabyte(clients: Clients) -> None:
    topic = clients.topic()
    config = {"message.max.bytes": 4_000_000}
    producer, delivery = clients.producer(config), Delivery()
    producer.produce(topic, os.urandom(1_000_000), on_delivery=delivery)
    assert producer.flush(TIMEOUT_S) == 0
    assert delivery.errors == []
    producer.produce(topic, os.urandom(1_100_000), on_delivery=delivery)
    assert producer.flush(TIMEOUT_S) == 0
    assert [error.code() for error in delivery.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_partition_that_does_not_exist_is_refused(clients: Clients) -> None:
    topic = clients.topic(partitions=2)
    producer, delivery = clients.producer({"message.timeout.ms": 5000}), Delivery()
    producer.produce(topic, b"lost", partition=7, on_delivery=delivery)
    assert producer.flush(TIMEOUT_S) == 0
    assert [error.code() for error in delivery.errors] == [KafkaError._UNKNOWN_PARTITION]


def test_partitions_are_ordered_each_by_itself(clients: Clients) -> None:
    topic = clients.topic(partitions=3)
    producer, delivery = clients.producer({"linger.ms": 5}), Delivery()
    for n in range(3000):
        producer.produce(topic, b"%d" % n, partition=n % 3, on_delivery=delivery)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert delivery.errors == []
    for partition in range(3):
        read = clients.read(topic, 1000, partition=partition)
        assert [m.value() for m in read] == [b"%d" % n for n in range(partition, 3000, 3)]


def test_a_topic_is_made_by_producing_to_it(clients: Clients) -> None:
    topic = unique("made-by-producing")
    clients.produce(topic, [b"first"])
    assert [message.value() for message in clients.read(topic, 1)] == [b"first"]
    assert len(clients.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == 1
