"""Decides commands of the partitions that the group of deciders gives to this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from pipeline import leaving, topics
from pipeline.changelog_writer import BrokenProducerError, ChangelogWriter
from pipeline.errors import OperatorError, TryAgainError
from pipeline.kafka_clients import aiokafka
from pipeline.metrics.definitions import worker as metric
from pipeline.partition_reader import PartitionReader
from pipeline.strict.session import Rebalances, Session
from pipeline.strict.strict_topics import FETCH_WAIT_MS, ensure_strict_topics
from pipeline.strict.values import ValueFlusher

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter
    from schemas.settings import Settings

log = logging.getLogger(__name__)

SESSION_TIMEOUT_MS = 6_000
"""A killed decider is missed for this long: the least that Kafka allows by default."""

_HEARTBEAT_MS = 1_500
_RETRY_S = 1.0
_RETRY_OPERATOR_S = 10.0
_MAX_POLL_INTERVAL_MS = 600_000


class Decider:
    """Joins the group of deciders and does its part. Owned by one event loop."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        meter: Meter,
        on_topics: Callable[[], None] = lambda: None,
    ) -> None:
        """Connects to nobody yet. `on_topics` is called once, in a thread, when the topics are
        there; it may block, and raise TallyError."""
        self._settings = settings
        self._clock = clock
        self._meter = meter
        self._values = ValueFlusher(settings, clock, meter)
        self._on_topics: Callable[[], None] | None = on_topics
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Have `run` end soon, in order. Call it in the event loop."""
        self._stopped.set()

    async def run(self) -> None:
        """Decide until it is stopped. A server that is away is tried again; so is what an operator
        must mend, which is told. Raises whatever else goes wrong."""
        tasks = [asyncio.create_task(self._values.run()), asyncio.create_task(self._decide())]
        try:
            # Flushing never ends by itself, but for a bug, and that must not go unseen.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(TryAgainError, OperatorError):
                await self._values.flush()
            self._values.close()

    async def _decide(self) -> None:
        while not self._stopped.is_set():
            pause_s = await self._session_or_pause()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), pause_s)

    async def _session_or_pause(self) -> float:
        try:
            await self._session()
        except OperatorError as error:
            log.error("strict counters are not decided: %s", error)  # noqa: TRY400 - one line
            return _RETRY_OPERATOR_S
        except (TryAgainError, KafkaError, BrokenProducerError) as error:
            log.warning("strict counters are not decided for a moment: %s", error)
        finally:
            self._values.own(())
            self._meter.set(metric.STRICT_PARTITIONS(), 0)
        return _RETRY_S

    async def _session(self) -> None:
        """From joining the group to leaving it, with clients of its own."""
        kafka = self._settings.kafka
        partitions = await asyncio.to_thread(ensure_strict_topics, kafka, self._settings.partitions)
        if self._on_topics is not None:
            await asyncio.to_thread(self._on_topics)
            self._on_topics = None
        writer, reader = ChangelogWriter(kafka, topics.STRICT_CHANGELOG), PartitionReader(kafka)
        rebalances = Rebalances()
        consumer = AIOKafkaConsumer(
            **aiokafka(kafka),
            group_id=topics.STRICT_GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            max_poll_interval_ms=_MAX_POLL_INTERVAL_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            isolation_level="read_committed",
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        consumer.subscribe([topics.STRICT], listener=rebalances)
        try:
            await writer.start()
            await consumer.start()
            session = Session(
                consumer,
                writer,
                reader,
                partitions,
                values=self._values,
                clock=self._clock,
                meter=self._meter,
            )
            await session.run(rebalances, self._stopped)
        finally:
            await leaving.stop(consumer)
            await writer.stop()
            await reader.stop()
