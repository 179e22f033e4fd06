"""What the broker itself says of a build: log ends, committed offsets, who owns what."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
)

from tests.integration.worker.events import PARTITIONS
from tests.integration.worker.stream import TOPIC

TIMEOUT_S = 20
NOT_KNOWN = -1


def group_of(build: int) -> str:
    """The consumer group of a build's workers."""
    return f"tally-build-{build}"


def changelog_of(build: int) -> str:
    """The changelog topic of a build."""
    return f"{group_of(build)}-cells-changelog"


@contextmanager
def _consumer(kafka: str, group: str) -> Iterator[Consumer]:
    settings: dict[str, Any] = {"bootstrap.servers": kafka, "group.id": group, "log_level": 0}
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()


def log_ends(kafka: str, topic: str = TOPIC) -> list[int]:
    """The offset after the last record, by partition."""
    with _consumer(kafka, "looks-at-ends") as consumer:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)[1]
            for number in range(PARTITIONS)
        ]


def committed(kafka: str, build: int) -> list[int]:
    """The committed next offset by partition; below zero where there is none, or none is told."""
    with _consumer(kafka, group_of(build)) as consumer:
        wanted = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        try:
            at = consumer.committed(wanted, timeout=TIMEOUT_S)
        except KafkaException:  # Such as while its coordinator is loading.
            return [NOT_KNOWN] * PARTITIONS
        found = {one.partition: one.offset for one in at}
    return [found[number] for number in range(PARTITIONS)]


def members(kafka: str, build: int) -> dict[str, set[int]]:
    """The partitions of every member of a build's group, by member id."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    group = group_of(build)
    found = admin.describe_consumer_groups([group])[group].result(timeout=TIMEOUT_S)
    return {
        member.member_id: {
            at.partition for at in member.assignment.topic_partitions if at.topic == TOPIC
        }
        for member in found.members
    }


def dead_letter_places(kafka: str) -> set[str]:
    """The keys of all dead letters: `partition/offset/row` of what was refused."""
    places: set[str] = set()
    start = TopicPartition("tally.dead-letters", 0, 0)
    with _consumer(kafka, "looks-at-dead-letters") as consumer:
        low, end = consumer.get_watermark_offsets(start, timeout=TIMEOUT_S)
        consumer.assign([start])
        at = low
        while at < end:
            record = consumer.poll(TIMEOUT_S)
            assert record is not None, f"dead letters end at {end}, but nothing came after {at}"
            assert record.error() is None, record.error()
            key, offset = record.key(), record.offset()
            assert key is not None
            assert offset is not None
            places.add(key.decode() if isinstance(key, bytes) else key)
            at = offset + 1
    return places
