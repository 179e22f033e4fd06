"""A worker's writer: partitions at once, batches given up, a stop while its duties still write."""

import asyncio

import pytest

from pipeline.changelog_writer import BrokenProducerError, ChangelogWriter
from pipeline.errors import TryAgainError
from schemas.addresses import KafkaAddress
from tests.integration.log.clients import Clients
from tests.kit.brokers import Broker

WRITERS = 8
PATIENCE_S = 20


def test_who_writes_while_it_stops_is_told_to_try_again(broker: Broker, clients: Clients) -> None:
    topic = clients.topic(partitions=4)

    async def write_until_told(writer: ChangelogWriter, begun: asyncio.Event) -> str:
        while True:
            try:
                await writer.append_control(topic, "heartbeat", b"{}")
            except TryAgainError as error:
                return str(error)
            begun.set()

    async def stop_while_others_write() -> list[str]:
        writer, begun = ChangelogWriter(KafkaAddress(broker.bootstrap), topic), asyncio.Event()
        await writer.start()
        writing = [asyncio.create_task(write_until_told(writer, begun)) for _ in range(WRITERS)]
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        await writer.stop()
        return await asyncio.wait_for(asyncio.gather(*writing), PATIENCE_S)

    assert len(asyncio.run(stop_while_others_write())) == WRITERS


def test_partitions_get_their_own_records_in_order_though_they_are_written_side_by_side(
    broker: Broker, clients: Clients
) -> None:
    topic = clients.topic(partitions=3)
    large = b"x" * 100_000  # so that a partition's records are several batches
    parts = [(p, [(b"%d" % n, large if n % 2 else None) for n in range(12)]) for p in (2, 0, 1)]

    async def write() -> None:
        writer = ChangelogWriter(KafkaAddress(broker.bootstrap), topic)
        await writer.start()
        try:
            await writer.append_each(parts)
        finally:
            await writer.stop()

    asyncio.run(write())
    for partition, records in parts:
        found = clients.read(topic, len(records), partition=partition)
        assert [(message.key(), message.value()) for message in found] == records


def test_what_comes_last_is_not_there_without_what_comes_before_it(
    broker: Broker, clients: Clients
) -> None:
    """As cells and their position: a worker would go on from there, and lack them."""
    topic = clients.topic(partitions=2, max_message_bytes=400_000)
    cells = [(b"cell %d" % number, b"x" * 1000) for number in range(700)]
    few = [(b"cell", b"x"), (b"position", b"")]

    async def write() -> None:
        writer = ChangelogWriter(KafkaAddress(broker.bootstrap), topic)
        await writer.start()
        try:
            with pytest.raises(BrokenProducerError, match="MessageSizeTooLarge"):
                await writer.append_each([(0, [*cells, (b"position", b"")]), (1, few)])
        finally:
            await writer.stop()

    asyncio.run(write())
    keys = [[message.key() for message in clients.read_to_end(topic, partition=p)] for p in (0, 1)]
    assert keys == [[], [b"cell", b"position"]]
