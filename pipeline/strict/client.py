"""Asks strict counters: a command goes to the log, and its answer comes from the changelog."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline import leaving, topics
from pipeline.errors import TryAgainError
from pipeline.kafka_clients import aiokafka
from pipeline.record_batches import keep_bytes_of_fetches
from pipeline.sharding import counter_partition
from pipeline.strict.answers import Answers, NotDecidedYetError
from pipeline.strict.state import id_digest
from pipeline.strict.strict_topics import FETCH_WAIT_MS, partitions_of

if TYPE_CHECKING:
    from pipeline.strict.state import Decision
    from schemas.addresses import KafkaAddress
    from schemas.strict import Command

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_MS = 5_000
_POLL_MS = 1_000


class _Connection:
    """A producer of commands, and a reader of the changelog from its end on."""

    def __init__(self, kafka: KafkaAddress, partitions: int, answers: Answers) -> None:
        self._partitions = partitions
        self._answers = answers
        self._producer = AIOKafkaProducer(
            **aiokafka(kafka),
            acks="all",  # a command that arrives twice has an id, and one answer
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
        )
        self._consumer = AIOKafkaConsumer(
            **aiokafka(kafka),
            enable_auto_commit=False,
            auto_offset_reset="latest",
            isolation_level="read_committed",
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        self.reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when every answer to what is sent from now on will be heard."""
        await self._producer.start()
        await self._consumer.start()
        parts = [
            TopicPartition(topics.STRICT_CHANGELOG, number) for number in range(self._partitions)
        ]
        self._consumer.assign(parts)
        await self._consumer.seek_to_end(*parts)
        for part in parts:
            await self._consumer.position(part)
        self.reading = asyncio.create_task(self._read())

    async def send(self, command: Command) -> None:
        """Returns when the log has it. Raises KafkaError; then it may have it or not."""
        partition = counter_partition(command.counter, 0, self._partitions)
        await self._producer.send_and_wait(
            topics.STRICT, command.record(), command.counter.encode(), partition
        )

    async def stop(self) -> None:
        """Disconnect."""
        if self.reading is not None:
            self.reading.cancel()
            await asyncio.gather(self.reading, return_exceptions=True)
        await asyncio.gather(
            leaving.stop(self._consumer), self._producer.stop(), return_exceptions=True
        )

    async def _read(self) -> None:
        while True:
            fetched = await self._consumer.getmany(timeout_ms=_POLL_MS)
            for records in fetched.values():
                for record in records:
                    self._answers.hear(record.key, record.value)


class StrictClient:
    """Connects when it is first asked. Owned by one event loop."""

    def __init__(self, kafka: KafkaAddress) -> None:
        """Never blocks."""
        self._kafka = kafka
        self._answers = Answers()
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()

    async def ask(self, command: Command, wait_s: float) -> Decision:
        """The decision, which is safe by then.

        Raises TryAgainError when nothing was sent, and NotDecidedYetError when nobody knows yet:
        the same id may be asked again.
        """
        digest = id_digest(command.id)
        try:
            async with asyncio.timeout(wait_s):
                connection = await self._connected()
                answer = self._answers.expect(command.counter, digest)
                try:
                    await connection.send(command)
                    return await answer
                finally:
                    self._answers.forget(command.counter, digest, answer)
        except (TimeoutError, KafkaError) as error:
            raise NotDecidedYetError(command.id, wait_s) from error

    async def close(self) -> None:
        """Disconnect."""
        async with self._connecting:
            if self._connection is not None:
                await self._connection.stop()
                self._connection = None

    async def _connected(self) -> _Connection:
        async with self._connecting:
            connection = self._connection
            if connection is not None and (reading := connection.reading) is not None:
                if not reading.done():
                    return connection
                log.warning("answers are read anew after: %r", reading.exception())
                await connection.stop()
                self._connection = None
            partitions = await asyncio.to_thread(_partitions, self._kafka)
            connection = _Connection(self._kafka, partitions, self._answers)
            try:
                await connection.start()
            except BaseException as error:
                with contextlib.suppress(Exception):
                    await connection.stop()
                if isinstance(error, KafkaError):
                    raise TryAgainError(
                        f"Kafka at {self._kafka} does not answer: {error}"
                    ) from error
                raise
            self._connection = connection
            return connection


def _partitions(kafka: KafkaAddress) -> int:
    """How many there are. Blocks; raises TryAgainError, also when no worker has made them yet."""
    partitions = partitions_of(topics.partition_counts(topics.admin_client(kafka)))
    if not partitions:
        raise TryAgainError(
            f"topic {topics.STRICT} does not exist yet: a worker makes it when rules with a strict "
            "family are applied; try again"
        )
    return partitions


# A batch that cannot be read is passed over: who waits for an answer is not to miss it for that.
keep_bytes_of_fetches()
