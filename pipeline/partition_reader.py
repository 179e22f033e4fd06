"""Reads single partitions from a given offset, outside of any consumer group.

Like the workers' consumer it reads what is committed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.errors import KafkaError
from faust.types import TP

from pipeline import leaving
from pipeline.draining import drain
from pipeline.errors import TryAgainError
from pipeline.kafka_clients import aiokafka

if TYPE_CHECKING:
    from pipeline.fetches import Fetch
    from schemas.addresses import KafkaAddress

_TIMEOUT_S = 20.0
_POLL_S = 0.5


class PartitionReader:
    """One connection, one partition at a time. Methods raise TryAgainError when Kafka is away."""

    def __init__(self, kafka: KafkaAddress) -> None:
        self._kafka = kafka
        self._consumer: AIOKafkaConsumer | None = None
        self._reading = asyncio.Lock()

    async def ends(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset the partition has, and the one after the last that may be read."""
        tp = TopicPartition(topic, partition)
        try:
            consumer = await self._started()
            start = (await consumer.beginning_offsets([tp]))[tp]
            end = (await consumer.end_offsets([tp]))[tp]
        except KafkaError as error:
            raise self._away(error) from error
        return start, end

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first offset whose record is not older than `timestamp_ms`, or None."""
        tp = TopicPartition(topic, partition)
        try:
            consumer = await self._started()
            found = (await consumer.offsets_for_times({tp: timestamp_ms}))[tp]
        except KafkaError as error:
            raise self._away(error) from error
        return None if found is None else found.offset

    async def fetch(self, topic: str, partition: int, offset: int) -> Fetch:
        """What one fetch brings from an offset that the partition has."""
        tp = TopicPartition(topic, partition)
        try:
            async with asyncio.timeout(_TIMEOUT_S), self._reading:
                consumer = await self._started()
                consumer.assign([tp])
                consumer.seek(tp, offset)
                return await self._fetched(consumer, tp)
        except (KafkaError, TimeoutError) as error:
            raise self._away(error) from error

    async def stop(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await leaving.stop(self._consumer)
            self._consumer = None

    async def _fetched(self, consumer: AIOKafkaConsumer, tp: TopicPartition) -> Fetch:
        fetcher = consumer._fetcher
        while True:
            result = fetcher._records.pop(tp, None)
            if result is not None:
                fetcher._notify(fetcher._wait_consume_future)
                if type(result) is not FetchResult:
                    result.check_raise()
                fetch = drain(result, TP(*tp))
                if fetch is not None:
                    return fetch
            await asyncio.wait([fetcher._create_fetch_waiter()], timeout=_POLL_S)

    async def _started(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(
                **aiokafka(self._kafka),
                enable_auto_commit=False,
                auto_offset_reset="none",
                fetch_max_wait_ms=100,
                isolation_level="read_committed",
            )
            await consumer.start()
            self._consumer = consumer
        return self._consumer

    def _away(self, error: BaseException) -> TryAgainError:
        return TryAgainError(f"Kafka at {self._kafka} did not let a partition be read: {error!r}")
