"""A group's places: OffsetCommit and OffsetFetch."""

from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.meta import CommittedOffset

NOTE_BYTES_MAX = 4096


async def offset_commit(context: Context, body: Any) -> dict[str, Any]:
    """Durable before it is answered. Partitions that do not exist are refused one by one."""
    codes: dict[tuple[str, int], ErrorCode] = {}
    found = {}
    offsets = []
    for topic in body.topics:
        for part in topic.partitions:
            code = _refusal(context, topic.name, part)
            codes[topic.name, part.partition_index] = code
            if code is ErrorCode.none:
                place = topic.name, part.partition_index
                found[place] = context.broker.partition(*place)
                offsets.append(
                    CommittedOffset(
                        topic.name,
                        part.partition_index,
                        part.committed_offset,
                        getattr(part, "committed_leader_epoch", -1),
                        part.committed_metadata,
                    )
                )
    outcome = await context.broker.coordinator.commit(
        body.group_id,
        body.member_id,
        getattr(body, "group_instance_id", None),
        body.generation_id_or_member_epoch,
        offsets,
    )
    if outcome is not ErrorCode.none:
        codes = dict.fromkeys(codes, outcome)
    else:
        for place, partition in found.items():
            if context.broker.partition(*place) is not partition:  # It was deleted meanwhile.
                codes[place] = ErrorCode.unknown_topic_or_partition
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": part.partition_index,
                        "error_code": codes[topic.name, part.partition_index],
                    }
                    for part in topic.partitions
                ],
            }
            for topic in body.topics
        ]
    }


def _refusal(context: Context, topic: str, part: Any) -> ErrorCode:
    if context.broker.partition(topic, part.partition_index) is None:
        return ErrorCode.unknown_topic_or_partition
    if len((part.committed_metadata or "").encode()) > NOTE_BYTES_MAX:
        return ErrorCode.offset_metadata_too_large
    return ErrorCode.none


async def offset_fetch(context: Context, body: Any) -> dict[str, Any]:
    committed = context.broker.coordinator.offsets(body.group_id)
    if body.topics is None:
        wanted: dict[str, list[int]] = {}
        for topic, partition in committed:
            wanted.setdefault(topic, []).append(partition)
    else:
        wanted = {topic.name: list(topic.partition_indexes) for topic in body.topics}
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "name": topic,
                "partitions": [_fetched(p, committed.get((topic, p))) for p in partitions],
            }
            for topic, partitions in wanted.items()
        ],
    }


def _fetched(partition: int, committed: CommittedOffset | None) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": committed.offset if committed else -1,
        "committed_leader_epoch": committed.leader_epoch if committed else -1,
        "metadata": committed.note if committed else "",
        "error_code": ErrorCode.none,
    }
