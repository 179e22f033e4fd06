"""Who is there and what it can: ApiVersions, Metadata, FindCoordinator, InitProducerId."""

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.broker import NODE_ID, Broker, RefusedError, Topic
from pipeline.embedded.log.handlers.context import Context

TRANSACTION_COORDINATOR = 1


async def api_versions(_context: Context, _body: Any) -> dict[str, Any]:
    return {"error_code": ErrorCode.none, "api_keys": announced()}


def announced() -> list[dict[str, Any]]:
    """All requests we answer, with their versions."""
    # The table imports the handlers, so a handler that shows the table looks it up when asked.
    from pipeline.embedded.log.handlers.apis import APIS  # noqa: PLC0415

    return [
        {"api_key": key, "min_version": api.version_min, "max_version": api.version_max}
        for key, api in APIS.items()
    ]


async def metadata(context: Context, body: Any) -> dict[str, Any]:
    """Topics asked for by name are made, with one partition, where the client allows it."""
    broker = context.broker
    # Version 0 has no way to say "none", so an empty list means all there.
    wants_all = body.topics is None or (context.version == 0 and not body.topics)
    asked = broker.topics if wants_all else (topic.name for topic in body.topics)
    # A topic may have thousands of partitions: who names it again is told of it once.
    names = list(dict.fromkeys(asked))
    may_create = not wants_all and getattr(body, "allow_auto_topic_creation", True)
    topics: list[dict[str, Any]] = []
    for name in names:
        is_new = may_create and name not in broker.topics
        topics.append(_topic_metadata(broker, name, may_create=may_create))
        if is_new:
            # Each waits for the disk, and whoever else asks should not wait for all of them.
            await asyncio.sleep(0)
    return {
        "brokers": [{"node_id": NODE_ID, "host": broker.host, "port": broker.port, "rack": None}],
        "cluster_id": broker.cluster_id,
        "controller_id": NODE_ID,
        "topics": topics,
    }


def _topic_metadata(broker: Broker, name: str, *, may_create: bool) -> dict[str, Any]:
    topic = broker.topics.get(name)
    if topic is None:
        code = ErrorCode.unknown_topic_or_partition
        try:
            broker.check_new_topic(name, 1, {})
            if may_create:
                topic = broker.create_topic(name, 1, {})
        except RefusedError as refused:
            code = refused.code
        if topic is None:
            return {"error_code": code, "name": name, "partitions": []}
    return {"error_code": ErrorCode.none, "name": name, "partitions": _partitions(topic)}


def _partitions(topic: Topic) -> list[dict[str, Any]]:
    return [
        {
            "error_code": ErrorCode.none,
            "partition_index": number,
            "leader_id": NODE_ID,
            "leader_epoch": 0,
            "replica_nodes": [NODE_ID],
            "isr_nodes": [NODE_ID],
        }
        for number in range(len(topic.partitions))
    ]


async def find_coordinator(context: Context, body: Any) -> dict[str, Any]:
    if getattr(body, "key_type", 0) == TRANSACTION_COORDINATOR:
        # Clients take this one as final; "no coordinator" would make them ask for ever.
        return {
            "error_code": ErrorCode.transactional_id_authorization_failed,
            "error_message": "Transactions are not supported by the embedded log.",
            "node_id": -1,
            "host": "",
            "port": -1,
        }
    broker = context.broker
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "node_id": NODE_ID,
        "host": broker.host,
        "port": broker.port,
    }


async def init_producer_id(context: Context, body: Any) -> dict[str, Any]:
    """A fresh id each time; a client that asks to go on under a new epoch gets a new id instead."""
    if body.transactional_id is not None:
        return {
            "error_code": ErrorCode.transactional_id_authorization_failed,
            "producer_id": -1,
            "producer_epoch": -1,
        }
    return {
        "error_code": ErrorCode.none,
        "producer_id": context.broker.meta.next_producer_id(),
        "producer_epoch": 0,
    }
