"""Appends to the changelog and to the dead letters, and waits until Kafka has confirmed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from pipeline import dead_letters
from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.changelog import ChangelogRecord
    from pipeline.dead_letters import DeadLetter

# Well below Kafka's default limit of a mebibyte for a batch.
_BATCH_BYTES = 512 * 1024


class BrokenProducerError(Exception):
    """This producer can write no more; not a TallyError, since only a new process helps.

    After a batch that was given up, an idempotent producer's sequence has a hole, and the broker
    refuses all that follows. A new process has a new producer, and a new generation.
    """


def _judged(what: str, error: KafkaError) -> Exception:
    text = f"{what} could not be written: {error!r}"
    return TryAgainError(text) if error.retriable else BrokenProducerError(text)


class ChangelogWriter:
    """Writes in batches, each of which Kafka appends whole or not at all.

    `append` and `append_dead_letters` return when everything is confirmed by all replicas, and
    raise TryAgainError when that could not be learned; the records may be in the log all the same.
    """

    def __init__(self, kafka: str, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect, once. Call it in the event loop that will write. Raises TryAgainError."""
        if self._producer is not None:
            return
        producer = AIOKafkaProducer(
            bootstrap_servers=self._kafka,
            enable_idempotence=True,
            max_batch_size=_BATCH_BYTES,
            max_request_size=dead_letters.MAX_BYTES,
            request_timeout_ms=20_000,
        )
        try:
            await producer.start()
        except KafkaError as error:
            await producer.stop()
            raise TryAgainError(f"Kafka at {self._kafka} does not answer: {error}") from error
        self._producer = producer

    async def stop(self) -> None:
        """Send what is pending and disconnect."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def append(self, partition: int, records: Iterable[ChangelogRecord]) -> None:
        """Append records to one partition of the changelog, in their order."""
        producer = self._started()
        batch = producer.create_batch()
        pending = []
        try:
            for key, value in records:
                if batch.append(key=key, value=value, timestamp=None) is None:
                    pending.append(
                        await producer.send_batch(batch, self._topic, partition=partition)
                    )
                    batch = producer.create_batch()
                    batch.append(key=key, value=value, timestamp=None)
            if batch.record_count():
                pending.append(await producer.send_batch(batch, self._topic, partition=partition))
            await asyncio.gather(*pending)
        except KafkaError as error:
            raise _judged("the changelog", error) from error

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

    def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise TryAgainError("the changelog writer is not started")
        return self._producer
