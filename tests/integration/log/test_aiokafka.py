"""The same contract through aiokafka, the client Faust stands on."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.integration.log.clients import Clients, unique

TIMEOUT_S = 60


@asynccontextmanager
async def producer(clients: Clients, **config: Any) -> AsyncIterator[Any]:
    made = AIOKafkaProducer(bootstrap_servers=clients.bootstrap, enable_idempotence=True, **config)
    await asyncio.wait_for(made.start(), TIMEOUT_S)
    try:
        yield made
    finally:
        await asyncio.wait_for(made.stop(), TIMEOUT_S)


@asynccontextmanager
async def consumer(clients: Clients, *topics: str, **config: Any) -> AsyncIterator[Any]:
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **config}
    made = AIOKafkaConsumer(*topics, bootstrap_servers=clients.bootstrap, **given)
    await asyncio.wait_for(made.start(), TIMEOUT_S)
    try:
        yield made
    finally:
        await asyncio.wait_for(made.stop(), TIMEOUT_S)


async def read(made: Any, count: int) -> list[Any]:
    """Read `count` records in whatever batches they come."""
    found: list[Any] = []

    async def fill() -> None:
        while len(found) < count:
            for records in (await made.getmany(timeout_ms=200)).values():
                found.extend(records)

    await asyncio.wait_for(fill(), TIMEOUT_S)
    return found


async def test_an_idempotent_producer_and_a_plain_reader_agree(clients: Clients) -> None:
    topic = clients.topic()
    async with producer(clients, linger_ms=5, compression_type="lz4") as sender:
        headers = [("kind", b"x"), ("kind", b"y")]
        sends = [
            await sender.send(topic, b"%d" % n, key=b"k", partition=0, headers=headers)
            for n in range(500)
        ]
        acknowledged = await asyncio.wait_for(asyncio.gather(*sends), TIMEOUT_S)
    assert [record.offset for record in acknowledged] == list(range(500))
    async with consumer(clients) as reader:
        reader.assign([TopicPartition(topic, 0)])
        found = await read(reader, 500)
    assert [record.value for record in found] == [b"%d" % n for n in range(500)]
    assert set(found[0].headers) == set(headers)
    assert len(clients.read(topic, 500)) == 500


async def test_a_batch_made_by_hand_is_appended_whole(clients: Clients) -> None:
    topic = clients.topic(partitions=2, message_timestamp_type="LogAppendTime")
    async with producer(clients) as sender:
        for start in (0, 100):
            batch = sender.create_batch()
            for n in range(start, start + 100):
                assert batch.append(key=b"%d" % n, value=b"value", timestamp=None) is not None
            batch.close()
            sent = await sender.send_batch(batch, topic, partition=1)
            record = await asyncio.wait_for(sent, TIMEOUT_S)
            assert record.offset == start
            assert record.timestamp_type == 1
    assert [m.key() for m in clients.read_to_end(topic, partition=1)] == [
        b"%d" % n for n in range(200)
    ]


async def test_a_group_commits_and_the_next_member_goes_on(clients: Clients) -> None:
    topic, group = clients.topic(), unique("group")
    clients.produce(topic, [b"%d" % n for n in range(100)])
    place = TopicPartition(topic, 0)
    async with consumer(clients, topic, group_id=group, max_poll_records=40) as first:
        found = await read(first, 40)
        assert [record.offset for record in found] == list(range(40))
        await asyncio.wait_for(first.commit({place: 40}), TIMEOUT_S)
    async with consumer(clients, topic, group_id=group) as second:
        assert [record.offset for record in await read(second, 60)] == list(range(40, 100))
        assert await second.committed(place) == 40


async def test_two_members_share_the_partitions_and_one_takes_over(clients: Clients) -> None:
    topic, group = clients.topic(partitions=4), unique("group")

    async def settled(members: list[Any]) -> None:
        """Serve the members until every partition is held once and everybody holds some."""
        while True:
            await asyncio.gather(*(member.getmany(timeout_ms=50) for member in members))
            held = [place.partition for member in members for place in member.assignment()]
            if sorted(held) == [0, 1, 2, 3] and all(member.assignment() for member in members):
                return

    config = {"group_id": group, "heartbeat_interval_ms": 300, "session_timeout_ms": 6000}
    async with consumer(clients, topic, **config) as stays:
        await asyncio.wait_for(settled([stays]), TIMEOUT_S)
        async with consumer(clients, topic, **config) as leaves:
            await asyncio.wait_for(settled([stays, leaves]), TIMEOUT_S)
        await asyncio.wait_for(settled([stays]), TIMEOUT_S)


async def test_offsets_are_found_by_time_and_at_both_ends(clients: Clients) -> None:
    topic, hour_ago_ms = clients.topic(), time.time_ns() // 1_000_000 - 3_600_000
    sender = clients.producer()
    for n in range(10):
        sender.produce(topic, b"%d" % n, partition=0, timestamp=hour_ago_ms + 10 * n)
    assert sender.flush(TIMEOUT_S) == 0
    place = TopicPartition(topic, 0)
    async with consumer(clients) as reader:
        reader.assign([place])
        assert await reader.beginning_offsets([place]) == {place: 0}
        assert await reader.end_offsets([place]) == {place: 10}
        found = await reader.offsets_for_times({place: hour_ago_ms + 41})
        assert (found[place].offset, found[place].timestamp) == (5, hour_ago_ms + 50)
        reader.seek(place, 7)
        assert [record.offset for record in await read(reader, 3)] == [7, 8, 9]
