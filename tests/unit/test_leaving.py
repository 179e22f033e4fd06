"""A consumer is stopped whatever its fetches were about."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import Fetcher
from faust.transport.consumer import ConsumerThread

from pipeline.bulk import BulkConsumerThread
from pipeline.leaving import stop

BACKOFF_S = 600.0


async def _fetched() -> None:
    """As aiokafka pauses after a fetch that failed."""
    await asyncio.sleep(BACKOFF_S)


class Client:
    """Connections to brokers; closing them takes so long."""

    def __init__(self) -> None:
        self.closed = 0
        self.takes_s = 0.0

    async def close(self) -> None:
        await asyncio.sleep(self.takes_s)
        self.closed += 1


class Consumer:
    """Stopped by aiokafka's own code; of what it is made of, just what that code looks at."""

    stop = AIOKafkaConsumer.stop

    def __init__(self) -> None:
        self._closed = False
        self._coordinator = None
        self._client = Client()
        self._fetcher = SimpleNamespace(
            _fetch_task=asyncio.create_task(_fetched()),
            _fetch_waiters=set[Any](),
            _pending_tasks={asyncio.create_task(_fetched()) for _ in range(3)},
        )
        self._fetcher.close = lambda: Fetcher.close(self._fetcher)

    def is_over(self) -> bool:
        fetches = [self._fetcher._fetch_task, *self._fetcher._pending_tasks]
        return all(task.done() for task in fetches)


async def test_one_whose_fetch_had_just_failed_is_stopped_whole() -> None:
    """Its own stop ended the thread that decides strict commands, as if that were cancelled."""
    consumer = Consumer()
    await asyncio.sleep(0)
    await stop(cast("Any", consumer))
    assert consumer.is_over()
    assert consumer._client.closed == 1
    await stop(cast("Any", consumer))
    assert consumer._client.closed == 1


async def test_without_the_care_that_is_taken_here_it_breaks_off() -> None:
    """Once this fails, aiokafka takes the care itself, and `pipeline.leaving` may go."""
    consumer = Consumer()
    await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await consumer.stop()
    assert (consumer.is_over(), consumer._client.closed) == (False, 0)


async def test_who_is_cancelled_meanwhile_is_told_so() -> None:
    consumer = Consumer()
    consumer._fetcher._pending_tasks.clear()
    consumer._client.takes_s = BACKOFF_S
    stopping = asyncio.create_task(stop(cast("Any", consumer)))
    await asyncio.sleep(0.01)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping


async def test_the_thread_of_a_workers_consumer_ends_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was stopped right after Kafka went away took a minute to end."""
    queues: list[str] = []

    async def ended(_: object) -> None:
        queues.append("ended")

    monkeypatch.setattr(ConsumerThread, "on_thread_stop", ended)
    thread = object.__new__(BulkConsumerThread)
    consumer = thread._consumer = cast("Any", Consumer())
    thread._reading = ThreadPoolExecutor(1)
    await asyncio.sleep(0)
    await thread.on_thread_stop()
    assert queues == ["ended"]
    assert consumer.is_over()
