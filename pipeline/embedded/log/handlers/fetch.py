"""Fetch: read from the files, or wait until there is enough to read."""

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.protocol.fetch import PartitionData, write_answer
from pipeline.embedded.log.protocol.wire import Request, read_body
from pipeline.metrics.definitions import log as metric

# One answer is held in memory per connection: this bounds it, whatever the client allows.
ANSWER_BYTES_MAX = 8 * 1024 * 1024
WAIT_S_MAX = 60.0

Collected = tuple[list[tuple[str, list[PartitionData]]], int, bool]


async def fetch(broker: Broker, request: Request) -> list[bytes]:
    """Answers at once when there are `min_bytes` or an error to tell of, else after `max_wait`."""
    body = read_body(request)
    topics, size, is_urgent = collect(broker, body)
    wait_s = min(body.max_wait.total_seconds(), WAIT_S_MAX)
    is_short = size < body.min_bytes and not is_urgent and wait_s > 0
    if is_short and await _wait_for_more(broker, body, body.min_bytes - size, wait_s):
        topics, _, _ = collect(broker, body)
    _measure(broker, [part for _, parts in topics for part in parts])
    return write_answer(request.version, request.correlation_id, topics)


def collect(broker: Broker, body: Any) -> Collected:
    """What can be answered now: data by topic, its size, and whether an error makes it urgent."""
    left = min(body.max_bytes, ANSWER_BYTES_MAX)
    size = 0
    is_urgent = False
    topics = []
    for topic in body.topics:
        parts = []
        for wanted in topic.partitions:
            # The first batch goes out whatever its size, or a consumer could get stuck.
            limit = min(wanted.partition_max_bytes, left) if size else max(left, 1)
            part = _read(broker, topic.topic, wanted, limit if left > 0 or not size else 0)
            is_urgent = is_urgent or part.code is not ErrorCode.none
            left -= len(part.records)
            size += len(part.records)
            parts.append(part)
        topics.append((topic.topic, parts))
    return topics, size, is_urgent


def _read(broker: Broker, topic: str, wanted: Any, limit: int) -> PartitionData:
    partition = broker.partition(topic, wanted.partition)
    if partition is None:
        return PartitionData(wanted.partition, ErrorCode.unknown_topic_or_partition)
    start, end = partition.start_offset, partition.end_offset
    if not start <= wanted.fetch_offset <= end:
        return PartitionData(wanted.partition, ErrorCode.offset_out_of_range, end, start)
    records, next_offset = b"", wanted.fetch_offset
    if limit > 0 and wanted.fetch_offset < end:
        limit = min(limit, wanted.partition_max_bytes)
        records, next_offset = partition.read(wanted.fetch_offset, limit)
    offsets = next_offset - wanted.fetch_offset
    return PartitionData(wanted.partition, ErrorCode.none, end, start, records, offsets)


def _measure(broker: Broker, parts: list[PartitionData]) -> None:
    broker.meter.add(metric.FETCHED_BYTES(), sum(len(part.records) for part in parts))
    broker.meter.add(metric.FETCHED_RECORDS(), sum(part.offsets for part in parts))
    code = next((part.code for part in parts if part.code is not ErrorCode.none), None)
    if code is not None:
        broker.meter.add(metric.REQUEST_ERRORS(api="fetch", error=code.name))


async def _wait_for_more(broker: Broker, body: Any, missing_bytes: int, wait_s: float) -> bool:
    """True when something changed that makes another look worth it."""
    partitions = [
        partition
        for topic in body.topics
        for wanted in topic.partitions
        if (partition := broker.partition(topic.topic, wanted.partition)) is not None
    ]
    before_bytes = sum(p.appended_bytes for p in partitions)
    grown = asyncio.Event()
    for partition in partitions:
        partition.watch(grown)
    broker.fetches_waiting += 1
    try:
        async with asyncio.timeout(wait_s):
            while not _is_enough(partitions, before_bytes + missing_bytes):
                grown.clear()
                await grown.wait()
    except TimeoutError:
        pass
    finally:
        broker.fetches_waiting -= 1
        for partition in partitions:
            partition.unwatch(grown)
    return (
        any(p.dropped for p in partitions)
        or sum(p.appended_bytes for p in partitions) > before_bytes
    )


def _is_enough(partitions: list[Partition], target_bytes: int) -> bool:
    return any(p.dropped for p in partitions) or (
        sum(p.appended_bytes for p in partitions) >= target_bytes
    )
