"""The table of the requests that are answered. What is not in it is not announced."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.handlers import (
    cluster,
    commits,
    configs,
    fetch,
    groups,
    offsets,
    produce,
    topics,
    unsupported,
)
from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.protocol import fetch as fetch_wire
from pipeline.embedded.log.protocol import produce as produce_wire
from pipeline.embedded.log.protocol.wire import API_VERSIONS_KEY, Request

Handler = Callable[[Context, Any], Awaitable[dict[str, Any]]]
RawHandler = Callable[[Broker, Request], Awaitable[list[bytes]]]

NEVER = 1 << 15  # no version that we speak


class Api(NamedTuple):
    """Versions stay below those with topic ids and batched coordinators: one node needs neither.

    `flexible_from` is the first version whose header has tagged fields; it is written down here,
    because asking kio would load the schemas of all versions and make the start a second longer.
    A raw handler reads and writes the bytes itself, because records must not be copied.
    """

    version_min: int
    version_max: int
    flexible_from: int
    handler: Handler | None = None
    raw_handler: RawHandler | None = None


APIS: dict[int, Api] = {
    # Version 0 is announced although 3 is the first that is stored: clients take an announcement
    # from 0 on as the sign that compressed batches are understood.
    0: Api(0, produce_wire.VERSION_MAX, NEVER, raw_handler=produce.produce),
    1: Api(fetch_wire.VERSION_MIN, fetch_wire.VERSION_MAX, NEVER, raw_handler=fetch.fetch),
    2: Api(1, 7, 6, offsets.list_offsets),
    # Version 9 of Metadata, as librdkafka asks for all topics, is not parsed by kio.
    3: Api(0, 8, NEVER, cluster.metadata),
    8: Api(2, 7, NEVER, commits.offset_commit),
    9: Api(1, 7, 6, commits.offset_fetch),
    10: Api(0, 2, NEVER, cluster.find_coordinator),
    11: Api(0, 7, 6, groups.join_group),
    12: Api(0, 4, 4, groups.heartbeat),
    13: Api(0, 4, 4, groups.leave_group),
    14: Api(0, 5, 4, groups.sync_group),
    15: Api(0, 5, 5, groups.describe_groups),
    16: Api(0, 4, 3, groups.list_groups),
    API_VERSIONS_KEY: Api(0, 3, 3, cluster.api_versions),
    19: Api(2, 6, 5, topics.create_topics),
    20: Api(1, 5, 4, topics.delete_topics),
    21: Api(0, 2, 2, offsets.delete_records),
    22: Api(0, 4, 2, cluster.init_producer_id),
    23: Api(2, 4, 4, offsets.offset_for_leader_epoch),
    32: Api(1, 4, 4, configs.describe_configs),
    33: Api(0, 2, 2, configs.alter_configs),
    37: Api(0, 3, 2, topics.create_partitions),
    42: Api(0, 2, 2, groups.delete_groups),
    44: Api(0, 1, 1, configs.incremental_alter_configs),
    68: Api(0, 1, 0, unsupported.consumer_group_heartbeat),
}


def _name(api: Api) -> str:
    handler = api.handler or api.raw_handler
    assert handler is not None
    return handler.__name__


NAMES = {key: _name(api) for key, api in APIS.items()}
"""What requests are called where they are counted: as their handlers."""

FLEXIBLE_FROM = {key: api.flexible_from for key, api in APIS.items()}
