"""A worker's writer that is stopped while its duties still write: they may try again elsewhere."""

import asyncio

from pipeline.changelog_writer import ChangelogWriter
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
