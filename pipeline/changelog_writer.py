"""Appends to the changelog, the dead letters and the log, and waits until Kafka has confirmed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, ProducerClosed

from pipeline import dead_letters
from pipeline.errors import TryAgainError
from pipeline.kafka_clients import aiokafka
from pipeline.lanes import KIND_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aiokafka.producer.message_accumulator import BatchBuilder

    from pipeline.changelog import ChangelogRecord
    from pipeline.dead_letters import DeadLetter
    from schemas.addresses import KafkaAddress

# Well below Kafka's default limit of a mebibyte for a batch.
_BATCH_BYTES = 512 * 1024

# Control records shall reach new partitions soon.
_METADATA_AGE_MS_MAX = 10_000


class BrokenProducerError(Exception):
    """This producer can write no more; not a TallyError, since only a new process helps.

    After a batch that was given up, an idempotent producer's sequence has a hole, and the broker
    refuses all that follows. A new process has a new producer, and a new generation.
    """


def _judged(what: str, error: KafkaError) -> Exception:
    text = f"{what} could not be written: {error!r}"
    # One that was closed was stopped while others still wrote: no hole is left by that.
    if error.retriable or isinstance(error, ProducerClosed):
        return TryAgainError(text)
    return BrokenProducerError(text)


class ChangelogWriter:
    """Writes in batches, each of which Kafka appends whole or not at all.

    The `append` methods return when everything is confirmed by all replicas, and
    raise TryAgainError when that could not be learned; the records may be in the log all the same.
    """

    def __init__(self, kafka: KafkaAddress, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._producer: AIOKafkaProducer | None = None
        self._on_progress: Callable[[], None] = lambda: None

    def watch(self, on_progress: Callable[[], None]) -> None:
        """Call `on_progress` between the batches of one append; what it raises ends the append."""
        self._on_progress = on_progress

    async def start(self) -> None:
        """Connect, once. Call it in the event loop that will write. Raises TryAgainError."""
        if self._producer is not None:
            return
        producer = AIOKafkaProducer(
            **aiokafka(self._kafka),
            enable_idempotence=True,
            max_batch_size=_BATCH_BYTES,
            max_request_size=dead_letters.MAX_BYTES,
            request_timeout_ms=20_000,
            metadata_max_age_ms=_METADATA_AGE_MS_MAX,
        )
        try:
            await producer.start()
        except KafkaError as error:
            await producer.stop()
            raise TryAgainError(f"Kafka at {self._kafka} does not answer: {error}") from error
        self._producer = producer

    async def stop(self) -> None:
        """Send what is pending and disconnect. Whoever writes meanwhile gets TryAgainError."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def append(self, partition: int, records: Iterable[ChangelogRecord]) -> None:
        """Append records to one partition of the changelog, in their order."""
        await self.append_each([(partition, records)])

    async def append_each(self, parts: Iterable[tuple[int, Iterable[ChangelogRecord]]]) -> None:
        """Append records to partitions of the changelog, in their order within each.

        A partition's last batch is sent when those before it are confirmed. It ends with what makes
        the others count, a position for instance, and Kafka may have it without them otherwise:
        from a producer that it has not met there it takes a batch with any number, also after one
        that was given up. While Kafka confirms those of one partition, those of the next are made.
        """
        producer = self._started()
        pending: list[asyncio.Future[Any]] = []
        lasts: list[tuple[int, BatchBuilder]] = []
        try:
            for partition, records in parts:
                await self._learn_of(producer, self._topic, partition)
                sent = len(pending)
                last = await self._send_all_but_last(producer, partition, records, pending)
                if len(pending) > sent:
                    lasts.append((partition, last))
                elif last.record_count():
                    pending.append(await self._send(producer, partition, last))
            await self._confirmed(pending)
            await self._confirmed([await self._send(producer, *last) for last in lasts])
        except KafkaError as error:
            raise _judged("the changelog", error) from error

    async def _send_all_but_last(
        self,
        producer: AIOKafkaProducer,
        partition: int,
        records: Iterable[ChangelogRecord],
        pending: list[asyncio.Future[Any]],
    ) -> BatchBuilder:
        """The last batch of the records; what tells that others are confirmed is added to pending.

        If it is empty there are none.
        """
        batch: BatchBuilder = producer.create_batch()
        for key, value in records:
            if batch.append(key=key, value=value, timestamp=None) is None:
                pending.append(await self._send(producer, partition, batch))
                batch = producer.create_batch()
                batch.append(key=key, value=value, timestamp=None)
                self._on_progress()
        return batch

    async def _send(
        self, producer: AIOKafkaProducer, partition: int, batch: BatchBuilder
    ) -> asyncio.Future[Any]:
        sent: asyncio.Future[Any] = await producer.send_batch(
            batch, self._topic, partition=partition
        )
        return sent

    async def _confirmed(self, pending: Iterable[asyncio.Future[Any]]) -> None:
        for confirmed in pending:
            await confirmed
            self._on_progress()

    async def append_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        """Append dead letters to their topic."""
        producer = self._started()
        try:
            pending = [
                await producer.send(
                    dead_letters.TOPIC, letter.value, letter.key(), headers=letter.headers()
                )
                for letter in letters
            ]
            await asyncio.gather(*pending)
        except KafkaError as error:
            raise _judged("dead letters", error) from error

    async def append_control(self, topic: str, kind: str, value: bytes) -> None:
        """Append a control record to every partition of a topic."""
        producer = self._started()
        try:
            partitions = await producer.partitions_for(topic)
            headers = [(KIND_HEADER, kind.encode())]
            pending = [
                await producer.send(topic, value, partition=partition, headers=headers)
                for partition in partitions
            ]
            await asyncio.gather(*pending)
        except KafkaError as error:
            raise _judged(f"a {kind} record", error) from error

    async def append_control_to(self, topic: str, partition: int, kind: str, value: bytes) -> None:
        """Append a control record to one partition of a topic."""
        producer = self._started()
        headers = [(KIND_HEADER, kind.encode())]
        try:
            await self._learn_of(producer, topic, partition)
            await producer.send_and_wait(topic, value, partition=partition, headers=headers)
        except KafkaError as error:
            raise _judged(f"a {kind} record", error) from error

    async def _learn_of(self, producer: AIOKafkaProducer, topic: str, partition: int) -> None:
        """What the producer knows of partitions may be older than one that was just made."""
        if partition in await producer.partitions_for(topic):
            return
        await producer.client.force_metadata_update()
        if partition not in await producer.partitions_for(topic):
            raise TryAgainError(f"Kafka does not tell of partition {partition} of {topic} yet")

    def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise TryAgainError("the changelog writer is not started")
        return self._producer
