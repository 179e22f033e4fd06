"""What the log forgets by itself: overwritten keys, old records, too many bytes; nothing else."""

import time

import pytest
from confluent_kafka import KafkaError, TopicPartition

from tests.integration.log.clients import TIMEOUT_S, Clients, Delivery, offset_of
from tests.kit.processes import wait_until

CLEANUP_TIMEOUT_S = 30
SEGMENT_BYTES = 1_048_576  # the least a real Kafka takes


def low_and_high(clients: Clients, topic: str) -> tuple[int, int]:
    place = TopicPartition(topic, 0)
    return clients.consumer().get_watermark_offsets(place, timeout=TIMEOUT_S)


def compacted_topic(clients: Clients, **configs: str | int) -> str:
    """A compacted topic whose segments close after 100 ms, for only closed ones are compacted."""
    return clients.topic(
        partitions=1,
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio="0.01",
        **configs,
    )


def roll(clients: Clients, topic: str) -> None:
    """Close the segment in use: the first record after segment.ms opens the next one."""
    time.sleep(0.15)
    clients.produce(topic, [b"roll"], key=lambda _: b"roll")


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_compaction_keeps_the_last_value_of_each_key_at_its_offset(
    clients: Clients, codec: str
) -> None:
    topic = compacted_topic(clients)
    values = [b"%d" % n for n in range(2000)]
    config = {"compression.type": codec, "batch.num.messages": 37, "linger.ms": 20}
    clients.produce(topic, values, key=lambda n: b"key %d" % (n % 10), config=config)
    roll(clients, topic)

    def kept() -> dict[int, tuple[bytes | None, bytes | None]]:
        read = clients.read_to_end(topic)
        assert [offset_of(m) for m in read] == sorted({offset_of(m) for m in read})
        return {offset_of(m): (m.key(), m.value()) for m in read if m.key() != b"roll"}

    last = {n: (b"key %d" % (n % 10), b"%d" % n) for n in range(1990, 2000)}
    wait_until(lambda: kept() == last, "only last values", timeout_s=CLEANUP_TIMEOUT_S, poll_s=0.3)
    assert low_and_high(clients, topic)[1] == 2001


def test_tombstones_remove_their_key_and_then_themselves(clients: Clients) -> None:
    topic = compacted_topic(clients, delete_retention_ms=100)
    clients.produce(topic, [b"a", b"b", None], key=lambda n: [b"stays", b"goes", b"goes"][n])

    def keys() -> list[bytes | None]:
        roll(clients, topic)
        return [m.key() for m in clients.read_to_end(topic) if m.key() != b"roll"]

    wait_until(lambda: keys() == [b"stays"], "the tombstone is gone", timeout_s=CLEANUP_TIMEOUT_S)


def test_a_tombstone_stays_readable_for_its_retention(clients: Clients) -> None:
    topic = compacted_topic(clients, delete_retention_ms=3_600_000)
    values = [b"1", b"2", None, b"other"]
    clients.produce(topic, values, key=lambda n: b"other" if n == 3 else b"key")

    def kept() -> list[tuple[int, bytes | None]]:
        roll(clients, topic)
        read = clients.read_to_end(topic)
        return [(offset_of(m), m.value()) for m in read if m.key() != b"roll"]

    expected = [(2, None), (3, b"other")]
    wait_until(lambda: kept() == expected, "compacted", timeout_s=CLEANUP_TIMEOUT_S)
    roll(clients, topic)
    time.sleep(1)
    assert kept() == expected


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(clients: Clients) -> None:
    topic = compacted_topic(clients)
    producer, delivery = clients.producer(), Delivery()
    producer.produce(topic, b"value", partition=0, on_delivery=delivery)
    assert producer.flush(TIMEOUT_S) == 0
    assert [error.code() for error in delivery.errors] == [KafkaError.INVALID_RECORD]


def test_a_group_reads_through_the_holes_compaction_leaves(clients: Clients) -> None:
    topic = compacted_topic(clients)
    values = [b"%d" % n for n in range(300)]
    clients.produce(topic, values, key=lambda n: b"%d" % (n if n % 100 == 0 else 1))
    roll(clients, topic)
    wait_until(
        lambda: len(clients.read_to_end(topic)) <= 6, "compacted", timeout_s=CLEANUP_TIMEOUT_S
    )
    read = clients.read(topic, 2, offset=150)
    assert [(m.offset(), m.value()) for m in read] == [(200, b"200"), (299, b"299")]


def test_records_older_than_the_retention_go_and_younger_ones_stay(clients: Clients) -> None:
    topic = clients.topic(retention_ms=60_000, segment_ms=200)
    hour_ago_ms = time.time_ns() // 1_000_000 - 3_600_000
    producer = clients.producer()
    for n in range(50):
        producer.produce(topic, b"old %d" % n, partition=0, timestamp=hour_ago_ms)
    assert producer.flush(TIMEOUT_S) == 0
    wait_until(
        lambda: low_and_high(clients, topic) == (50, 50), "old records go", timeout_s=60, poll_s=0.2
    )
    clients.produce(topic, [b"young %d" % n for n in range(50)])
    time.sleep(1)
    assert [m.offset() for m in clients.read_to_end(topic)] == list(range(50, 100))


def test_the_oldest_segments_go_when_the_log_is_too_large(clients: Clients) -> None:
    topic = clients.topic(retention_bytes=2 * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES)
    value = b"x" * 10_000
    clients.produce(topic, [value] * 600)

    def kept_bytes() -> int:
        low, high = low_and_high(clients, topic)
        return (high - low) * len(value)

    # Segments go whenever the log looks, which may be while records are still being produced.
    wait_until(
        lambda: kept_bytes() <= 4 * SEGMENT_BYTES,
        "old segments go",
        timeout_s=CLEANUP_TIMEOUT_S,
        poll_s=0.2,
    )
    time.sleep(1)
    low, high = low_and_high(clients, topic)
    assert high == 600
    assert 2 * SEGMENT_BYTES <= (high - low) * len(value) <= 4 * SEGMENT_BYTES
    assert [m.offset() for m in clients.read_to_end(topic)] == list(range(low, high))


def test_without_limits_nothing_is_forgotten(clients: Clients) -> None:
    topic = clients.topic(retention_ms=-1, segment_ms=100)
    producer = clients.producer()
    producer.produce(topic, b"ancient", partition=0, timestamp=1_000_000_000_000)
    assert producer.flush(TIMEOUT_S) == 0
    roll(clients, topic)
    time.sleep(1.5)
    assert [m.offset() for m in clients.read_to_end(topic)] == [0, 1]
