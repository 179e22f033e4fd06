"""Kafka read from outside of any consumer group: nobody's share changes, nothing is committed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from pipeline import topics
from pipeline.errors import TryAgainError
from pipeline.kafka_clients import librdkafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import Message

    from schemas.addresses import KafkaAddress
    from schemas.records import Headers

TIMEOUT_S = 20.0

_QUEUE_KB_MAX = 16 * 1024

_FETCH_WAIT_MS_MAX = 100

_NO_LEADER_YET = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
_ATTEMPTS_MAX = 20
_RETRY_S = 0.25

_RANGE_MESSAGES_MAX = 100
"""Held at a time when a range is read: a message may have a mebibyte."""


def groupless_consumer(
    kafka: KafkaAddress, settings: Mapping[str, int | str] | None = None
) -> Consumer:
    """A client that reads the partitions it is told, from where it is told. Never blocks.

    The end of a partition arrives as a message whose error is _PARTITION_EOF. Unlike workers it
    also reads what an aborted transaction wrote, and what an open one did.
    """
    return Consumer(
        librdkafka(
            kafka,
            {
                # The client asks for a name; a group is joined by subscribing: nobody does here.
                "group.id": "tally-groupless",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                # A fetch that waits for records delays whoever then wants to read elsewhere.
                "fetch.wait.max.ms": _FETCH_WAIT_MS_MAX,
                "queued.max.messages.kbytes": _QUEUE_KB_MAX,
                **(settings or {}),
            },
        )
    )


def partition_ends(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """The first offset a partition has and the one after its last.

    Blocks, also while a topic that was made a moment ago has no leader yet; raises TryAgainError.
    """
    for attempt in range(_ATTEMPTS_MAX):
        try:
            place = TopicPartition(topic, partition)
            return consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() in _NO_LEADER_YET and attempt + 1 < _ATTEMPTS_MAX:
                time.sleep(_RETRY_S)
                continue
            raise TryAgainError(
                f"Kafka did not tell the ends of {topic}; is it up, and did a worker run? {error}"
            ) from error
    raise AssertionError("the last attempt returns or raises")


def first_since(consumer: Consumer, topic: str, since_ms: Mapping[int, int]) -> dict[int, int]:
    """The first offset whose record is not older than its partition's moment; partitions without
    such a record are left out. Blocks; raises TryAgainError."""
    asked = [TopicPartition(topic, number, max(0, at_ms)) for number, at_ms in since_ms.items()]
    try:
        found = consumer.offsets_for_times(asked, timeout=TIMEOUT_S) if asked else []
        for one in found:
            if one.error is not None:
                raise KafkaException(one.error)
    except KafkaException as error:
        raise TryAgainError(f"Kafka did not tell where a time is in {topic}: {error}") from error
    # The offset is below zero where no record is as late.
    return {one.partition: one.offset for one in found if one.offset >= 0}


def log_ends(kafka: KafkaAddress, topic: str = topics.INCREMENTS) -> list[int]:
    """The offset after the last record, by partition. Blocks; raises TryAgainError."""
    return [end for _, end in log_ranges(kafka, topic)]


def log_ranges(kafka: KafkaAddress, topic: str = topics.INCREMENTS) -> list[tuple[int, int]]:
    """The first offset and the one after the last, by partition. Blocks; raises TryAgainError."""
    consumer = groupless_consumer(kafka)
    try:
        count = topics.partition_counts(topics.admin_client(kafka)).get(topic, 0)
        return [partition_ends(consumer, topic, partition) for partition in range(count)]
    finally:
        consumer.close()


def next_messages(consumer: Consumer, count_max: int, timeout_s: float) -> list[Message]:
    """What has arrived, as soon as something has; nothing after `timeout_s`. Blocks that long.

    The client's own call for many waits the whole time unless it gets as many as were asked for.
    """
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(count_max - 1, timeout=0)]


def read_ranges(
    consumer: Consumer, topic: str, ranges: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[int, int, Message]]:
    """Partition, offset and message of each partition's range, whose end is not included.

    Blocks; raises TryAgainError when Kafka is away. The consumer reads nothing else meanwhile.
    """
    ends = {partition: end for partition, (start, end) in ranges.items() if start < end}
    if not ends:
        return
    consumer.assign([TopicPartition(topic, number, ranges[number][0]) for number in ends])
    while ends:
        messages = next_messages(consumer, _RANGE_MESSAGES_MAX, TIMEOUT_S)
        if not messages:
            raise TryAgainError(f"Kafka sent nothing of {topic} for {TIMEOUT_S:g} s; is it up?")
        for message in messages:
            partition, offset = _place_of(message, topic)
            end = ends.get(partition)
            if end is None:
                continue
            if offset is not None and offset < end:
                yield partition, offset, message
            if offset is None or offset >= end - 1:
                del ends[partition]


def _place_of(message: Message, topic: str) -> tuple[int, int | None]:
    """A message's partition and offset; no offset where the partition ends."""
    error, partition = message.error(), message.partition()
    if partition is None or (error is not None and error.code() != KafkaError._PARTITION_EOF):
        raise TryAgainError(f"Kafka did not let {topic} be read: {error}")
    return partition, None if error is not None else message.offset()


UNTOLD: Headers = (("", b""),)
"""This very object stands for headers that the client cannot tell."""


def headers_of(message: Message) -> Headers:
    """A message's headers in their order; one without a value has an empty one.

    If the name of one is no text, the client can tell none of them: UNTOLD. Then it must not be
    asked again, as it ends the process.
    """
    try:
        headers = message.headers() or []
    except (SystemError, UnicodeDecodeError):
        return UNTOLD
    pairs = headers.items() if isinstance(headers, dict) else headers
    return tuple((name, _as_bytes(value)) for name, value in pairs)


def value_of(message: Message) -> bytes | None:
    """A message's value as it is in the log."""
    value = message.value()
    return None if value is None else _as_bytes(value)


def _as_bytes(value: object) -> bytes:
    if value is None:
        return b""
    return value if isinstance(value, bytes) else str(value).encode()
