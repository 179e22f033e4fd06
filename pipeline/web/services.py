"""What requests need, made once for a web process and closed with it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from pipeline.access.access import Access
from pipeline.errors import TallyError, TryAgainError
from pipeline.metrics.definitions import web as metric
from pipeline.metrics.definitions.web import WEB
from pipeline.metrics.pipeline_collector import PipelineCollector, ask_with
from pipeline.metrics.values import Metrics
from pipeline.producer import Producer
from pipeline.reads.flush_requests import FlushRequests
from pipeline.strict.client import StrictClient
from pipeline.web.asking import Asking
from pipeline.web.counting import Counting
from pipeline.web.flushed import Flushed
from pipeline.web.flushing import Flushing
from pipeline.web.hub import Hub
from pipeline.web.known_families import KnownFamilies
from pipeline.web.limits import BULKS_MAX, OPERATORS_MAX, Slots
from pipeline.web.status import StatusWatch
from pipeline.web.timely import Timely

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pipeline.clock import Clock
    from pipeline.producer.delivery import Unknown
    from schemas.settings import Settings

log = logging.getLogger(__name__)

LINGER_S = 0.0
"""Somebody waits for the receipt of every increment, so nothing is gathered but what comes while
the last was being packed."""

DELIVERY_TIMEOUT_S = 10.0
RETRY_S = 1.0

CONNECT_S = 5.0
"""How long a write waits for Kafka while it was never reached, as it is when all has just begun."""

CLOSE_S = 5.0


class Services:
    """All of it. Owned by one event loop; use it with `async with`."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Connects to nobody yet. Raises OperatorError when a token file or a key is unusable."""
        self.settings = settings
        self.clock = clock
        self.access = Access.of(settings, clock)
        self.metrics = Metrics(WEB)
        self.metrics.collect_also(PipelineCollector(ask_with(settings, clock), clock))
        self.asking = Asking(settings.clickhouse, clock)
        self.flushed = Flushed(self.asking, clock)
        self._flushing = Flushing(lambda: FlushRequests(settings.kafka, clock), self.flushed, clock)
        self.counting = Counting(
            self.asking,
            self.flushed,
            self._flushing,
            clock,
            self.metrics,
            cache_age_s=settings.cache_age_s,
            rollup_interval_s=settings.rollup_interval_s,
        )
        self.metrics.read(metric.CACHE_ENTRIES(), lambda: len(self.counting.cache))
        self.timely = Timely(self.asking, clock)
        self.families = KnownFamilies(self.asking, clock)
        self.status = StatusWatch(settings, self.asking, clock)
        self.hub = Hub(self.metrics)
        self.strict = StrictClient(settings.kafka)
        self.bulk_room = Slots(BULKS_MAX)
        self.operator_room = Slots(OPERATORS_MAX)
        self._producer: Producer | None = None
        self._connected = asyncio.Event()
        self._no_producer = (
            f"Kafka at {settings.kafka} was not reached yet; is it up? TALLY_KAFKA sets its address"
        )

    def edge_age_s(self, asked_s: float) -> int:
        """For how long an edge may keep an answer whose question began at a moment.

        What it has aged here is taken off, so that it is nowhere older than the settings allow;
        whole seconds are all that edges understand.
        """
        return int(self.settings.cache_age_s - (self.clock.monotonic_s() - asked_s))

    async def producer(self) -> Producer:
        """For writes. Waits a while for the first connection; raises TryAgainError after it."""
        if self._producer is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    await self._connected.wait()
        if self._producer is None:
            raise TryAgainError(self._no_producer)
        return self._producer

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Connects in the background, and closes everything in the end."""
        connecting = asyncio.create_task(self._connect())
        warming = asyncio.create_task(self.counting.cache.keep_warm())
        try:
            yield
        finally:
            for task in (connecting, warming):
                task.cancel()
            await asyncio.gather(connecting, warming, return_exceptions=True)
            await self.hub.close()
            await self.strict.close()
            self.asking.close()
            await asyncio.to_thread(self._close)

    async def _connect(self) -> None:
        """The producer, as soon as Kafka and its log are there."""
        while self._producer is None:
            try:
                self._producer = await asyncio.to_thread(self._made)
                self._connected.set()
            except TallyError as error:
                self._no_producer = str(error)
                await asyncio.sleep(RETRY_S)

    def _made(self) -> Producer:
        return Producer(
            self.settings.kafka,
            linger=LINGER_S,
            when_full="raise",
            delivery_timeout=DELIVERY_TIMEOUT_S,
            on_unknown=self._on_unknown,
            clock=self.clock,
        )

    def _on_unknown(self, unknown: Unknown) -> None:
        self.metrics.add(metric.INCREMENTS("unknown"), unknown.increments)
        log.warning("%d increments were not confirmed by Kafka", unknown.increments)

    def _close(self) -> None:
        self._flushing.close()
        if self._producer is not None:
            try:
                self._producer.close(CLOSE_S)
            except TryAgainError as error:
                log.warning("%s", error)
