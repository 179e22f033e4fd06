"""Making, growing and deleting topics."""

import asyncio
from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.broker import NODE_ID, Broker, RefusedError
from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.topic_config import DEFINITIONS

CREATED_BY_DEFAULT = 1
DYNAMIC_TOPIC_CONFIG = 1
DEFAULT_CONFIG = 5


async def create_topics(context: Context, body: Any) -> dict[str, Any]:
    names = Counter(topic.name for topic in body.topics)
    topics: list[dict[str, Any]] = []
    for topic in body.topics:
        topics.append(_created(context.broker, topic, names, validate_only=body.validate_only))
        # Each waits for the disk, and whoever else asks should not wait for all of them.
        await asyncio.sleep(0)
    return {"topics": topics}


def _created(
    broker: Broker, wanted: Any, names: Counter[str], *, validate_only: bool
) -> dict[str, Any]:
    try:
        if names[wanted.name] > 1:
            raise RefusedError(ErrorCode.invalid_request, "The topic is named twice.")
        partitions = _partition_count(wanted)
        settings = {config.name: config.value for config in wanted.configs}
        if validate_only:
            broker.check_new_topic(wanted.name, partitions, settings)
        else:
            broker.create_topic(wanted.name, partitions, settings)
    except RefusedError as refused:
        return {
            "name": wanted.name,
            "error_code": refused.code,
            "error_message": refused.reason,
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": [],
        }
    return {
        "name": wanted.name,
        "error_code": ErrorCode.none,
        "error_message": None,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [
            {
                "name": name,
                "value": settings.get(name, definition.default),
                "read_only": False,
                "config_source": DYNAMIC_TOPIC_CONFIG if name in settings else DEFAULT_CONFIG,
                "is_sensitive": False,
            }
            for name, definition in DEFINITIONS.items()
        ],
    }


def _partition_count(wanted: Any) -> int:
    """The number of partitions asked for; raises RefusedError for replicas we do not have."""
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise RefusedError(
                ErrorCode.invalid_request, "Give either an assignment or counts, not both."
            )
        for assignment in wanted.assignments:
            if list(assignment.broker_ids) != [NODE_ID]:
                raise RefusedError(
                    ErrorCode.invalid_replica_assignment, f"The only broker is {NODE_ID}."
                )
        return len(wanted.assignments)
    if wanted.replication_factor not in {-1, 1}:
        raise RefusedError(
            ErrorCode.invalid_replication_factor,
            f"Replication factor {wanted.replication_factor}, but there is one broker.",
        )
    return CREATED_BY_DEFAULT if wanted.num_partitions == -1 else int(wanted.num_partitions)


async def create_partitions(context: Context, body: Any) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    for wanted in body.topics:
        results.append(_grown(context.broker, wanted, validate_only=body.validate_only))
        # As with those that are made.
        await asyncio.sleep(0)
    return {"results": results}


def _grown(broker: Broker, wanted: Any, *, validate_only: bool) -> dict[str, Any]:
    try:
        topic = broker.topics.get(wanted.name)
        if topic is None:
            raise RefusedError(ErrorCode.unknown_topic_or_partition, "There is no such topic.")
        for assignment in wanted.assignments or ():
            if list(assignment.broker_ids) != [NODE_ID]:
                raise RefusedError(
                    ErrorCode.invalid_replica_assignment, f"The only broker is {NODE_ID}."
                )
        if validate_only:
            broker.check_growth(topic, wanted.count)
        else:
            broker.grow_topic(topic, wanted.count)
    except RefusedError as refused:
        return {
            "name": wanted.name,
            "error_code": refused.code,
            "error_message": refused.reason,
        }
    return {"name": wanted.name, "error_code": ErrorCode.none, "error_message": None}


async def delete_topics(context: Context, body: Any) -> dict[str, Any]:
    return {"responses": [_deleted(context.broker, name) for name in body.topic_names]}


def _deleted(broker: Broker, name: str) -> dict[str, Any]:
    topic = broker.topics.get(name)
    if topic is None:
        return {
            "name": name,
            "error_code": ErrorCode.unknown_topic_or_partition,
            "error_message": "There is no such topic.",
        }
    broker.delete_topic(topic)
    return {"name": name, "error_code": ErrorCode.none, "error_message": None}
