"""How much one request may ask for: what is named costs an answer, and everybody waits for it."""

import asyncio
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.handlers import cluster, configs, groups, offsets, produce, topics
from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.partition import Found, Partition
from pipeline.embedded.log.protocol.bounds import ITEMS_MAX
from pipeline.embedded.log.protocol.produce import read_request
from pipeline.embedded.log.protocol.wire import Request, read_body
from pipeline.errors import BadInputError
from tests.unit.embedded_log.batches import make_batch, make_values
from tests.unit.embedded_log.test_cleaner import HandClock


def request_of(api_key: int, version: int, body: bytes) -> Request:
    frame = memoryview(bytearray(body))
    return Request(api_key, version, 7, "", frame, 0)


def test_a_request_names_only_so_many_things() -> None:
    names = struct.pack(">i", ITEMS_MAX + 1) + b"\0\1t" * (ITEMS_MAX + 1)
    with pytest.raises(BadInputError, match="names more than"):
        read_body(request_of(3, 0, names))
    right = struct.pack(">i", ITEMS_MAX) + b"\0\1t" * ITEMS_MAX
    assert len(read_body(request_of(3, 0, right)).topics) == ITEMS_MAX


def test_lists_in_lists_count_together() -> None:
    topic = b"\0\1t" + struct.pack(">i", 2) + struct.pack(">iq", 0, -1) * 2
    count = ITEMS_MAX // 2
    body = struct.pack(">ii", -1, count) + topic * count
    with pytest.raises(BadInputError, match="names more than"):
        read_body(request_of(2, 1, body))


def test_a_produce_request_has_only_so_many_partitions() -> None:
    head = struct.pack(">hhii", -1, 1, 1000, 1) + b"\0\1t"
    many = head + struct.pack(">i", ITEMS_MAX + 1) + struct.pack(">ii", 0, -1) * (ITEMS_MAX + 1)
    with pytest.raises(BadInputError, match="partitions"):
        read_request(memoryview(bytearray(many)), 0)


async def test_what_is_named_again_is_told_once(tmp_path: Path) -> None:
    broker = Broker(tmp_path, HandClock(), Fsync.SECOND)
    broker.create_topic("t", 100, {})
    context = Context(broker, 4, "c", "h")
    wanted = SimpleNamespace(name="t")
    asked = SimpleNamespace(topics=[wanted] * 1000, allow_auto_topic_creation=False)
    assert len((await cluster.metadata(context, asked))["topics"]) == 1
    resource = SimpleNamespace(resource_type=2, resource_name="t", configuration_keys=None)
    described = await configs.describe_configs(context, SimpleNamespace(resources=[resource] * 9))
    assert len(described["results"]) == 1
    members = await groups.describe_groups(context, SimpleNamespace(groups=["g", "h", "g"]))
    assert [one["group_id"] for one in members["groups"]] == ["g", "h"]
    broker.stop()


async def test_a_time_that_is_asked_for_again_is_looked_for_once_and_others_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path, HandClock(), Fsync.SECOND)
    topic = broker.create_topic("t", 2, {})
    for partition in topic.partitions:
        partition.append(make_values(3), 5)
    searched: list[int] = []
    find = Partition.find_timestamp

    def count(self: Partition, timestamp_ms: int) -> Found | None:
        searched.append(timestamp_ms)
        return find(self, timestamp_ms)

    monkeypatch.setattr(Partition, "find_timestamp", count)
    wanted = [
        SimpleNamespace(partition_index=number % 2, timestamp=1001 + number // 2 % 2)
        for number in range(400)
    ]
    asked = SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=wanted)] * 2)
    turns: list[int] = []

    async def another() -> None:
        while True:
            turns.append(len(searched))
            await asyncio.sleep(0)

    task = asyncio.create_task(another())
    answer = await offsets.list_offsets(Context(broker, 4, "c", "h"), asked)
    task.cancel()
    told = [one for named in answer["topics"] for one in named["partitions"]]
    assert [(one["partition_index"], one["offset"]) for one in told[:4]] == [
        (0, 1),
        (1, 1),
        (0, 2),
        (1, 2),
    ]
    assert told == told[:4] * 200
    assert sorted(searched) == [1001, 1001, 1002, 1002]
    assert {1, 2, 3} <= set(turns)
    broker.stop()


async def test_topics_that_are_made_or_grown_let_others_have_their_turn(tmp_path: Path) -> None:
    broker = Broker(tmp_path, HandClock(), Fsync.SECOND)
    context = Context(broker, 4, "c", "h")
    counts: list[int] = []

    async def another() -> None:
        while True:
            counts.append(broker.partition_count)
            await asyncio.sleep(0)

    names = ["a", "b", "c", "d"]
    wanted = [
        SimpleNamespace(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[], count=3
        )
        for name in names
    ]
    asked = SimpleNamespace(topics=wanted, validate_only=False)
    named = [SimpleNamespace(name=name) for name in ("e", "f", "g", "h")]
    by_name = SimpleNamespace(topics=named, allow_auto_topic_creation=True)
    task = asyncio.create_task(another())
    await topics.create_topics(context, asked)
    await topics.create_partitions(context, asked)
    await cluster.metadata(context, by_name)
    task.cancel()
    assert {1, 2, 3, 4, 6, 8, 10, 12, 13, 14, 15} <= set(counts)
    assert len(broker.topics) == 8
    broker.stop()


async def test_batches_that_have_to_be_opened_let_others_have_their_turn(tmp_path: Path) -> None:
    broker = Broker(tmp_path, HandClock(), Fsync.SECOND)
    topic = broker.create_topic("t", 1, {"cleanup.policy": "compact"})
    batch = bytes(make_batch([(b"k", b"v")]))
    part = struct.pack(">ii", 0, len(batch)) + batch
    body = struct.pack(">hhii", -1, 1, 1000, 1) + b"\0\1t" + struct.pack(">i", 5) + part * 5
    ends: list[int] = []

    async def another() -> None:
        while True:
            ends.append(topic.partitions[0].end_offset)
            await asyncio.sleep(0)

    task = asyncio.create_task(another())
    await produce.produce(broker, request_of(0, 3, body))
    task.cancel()
    assert {1, 2, 3, 4} <= set(ends)
    assert topic.partitions[0].end_offset == 5
    broker.stop()
