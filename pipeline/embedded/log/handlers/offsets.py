"""Places in the log: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.partition import Found, Partition

LATEST = -1
EARLIEST = -2
NEWEST = -3


async def list_offsets(context: Context, body: Any) -> dict[str, Any]:
    """What is named again is looked for once; other requests have their turn between searches."""
    known: dict[tuple[str, int, int], dict[str, Any]] = {}
    topics: list[dict[str, Any]] = []
    for topic in body.topics:
        partitions: list[dict[str, Any]] = []
        for wanted in topic.partitions:
            name = (topic.name, wanted.partition_index, wanted.timestamp)
            if name not in known:
                known[name] = _listed(context, topic.name, wanted)
                await asyncio.sleep(0)
            partitions.append(known[name])
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


def _listed(context: Context, topic: str, wanted: Any) -> dict[str, Any]:
    partition = context.broker.partition(topic, wanted.partition_index)
    if partition is None:
        return {
            "partition_index": wanted.partition_index,
            "error_code": ErrorCode.unknown_topic_or_partition,
        }
    found = _find(partition, wanted.timestamp)
    return {
        "partition_index": wanted.partition_index,
        "error_code": ErrorCode.none,
        "timestamp": found.timestamp_ms if found else -1,
        "offset": found.offset if found else -1,
        "leader_epoch": 0 if found else -1,
    }


def _find(partition: Partition, timestamp_ms: int) -> Found | None:
    if timestamp_ms == LATEST:
        return Found(partition.end_offset, -1)
    if timestamp_ms == EARLIEST:
        return Found(partition.start_offset, -1)
    if timestamp_ms == NEWEST:
        return partition.newest()
    return partition.find_timestamp(timestamp_ms)


async def offset_for_leader_epoch(context: Context, body: Any) -> dict[str, Any]:
    """There is one leader and one epoch, 0, which ends where the log ends."""
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [_epoch_end(context, topic.topic, p) for p in topic.partitions],
            }
            for topic in body.topics
        ]
    }


def _epoch_end(context: Context, topic: str, wanted: Any) -> dict[str, Any]:
    partition = context.broker.partition(topic, wanted.partition)
    if partition is None:
        return {
            "partition": wanted.partition,
            "error_code": ErrorCode.unknown_topic_or_partition,
            "leader_epoch": -1,
            "end_offset": -1,
        }
    return {
        "partition": wanted.partition,
        "error_code": ErrorCode.none,
        "leader_epoch": 0,
        "end_offset": partition.end_offset,
    }


async def delete_records(context: Context, body: Any) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_deleted(context, topic.name, p) for p in topic.partitions],
            }
            for topic in body.topics
        ]
    }


def _deleted(context: Context, name: str, wanted: Any) -> dict[str, Any]:
    result = {"partition_index": wanted.partition_index, "low_watermark": -1}
    partition = context.broker.partition(name, wanted.partition_index)
    if partition is None:
        return {**result, "error_code": ErrorCode.unknown_topic_or_partition}
    topic = context.broker.topics[name]
    if not topic.config.is_deleted:
        return {**result, "error_code": ErrorCode.policy_violation}
    offset = partition.end_offset if wanted.offset == LATEST else wanted.offset
    if not 0 <= offset <= partition.end_offset:
        return {**result, "error_code": ErrorCode.offset_out_of_range}
    low = context.broker.delete_records(topic, wanted.partition_index, offset)
    return {**result, "low_watermark": low, "error_code": ErrorCode.none}
