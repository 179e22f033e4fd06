"""The bulk transport: one Faust event per (partition, fetch) instead of one per record.

Faust's own path pays for tasks, locks and queues with each event, which makes it tens of times
slower than this one (benchmarks/race). Delivered as one event, a fetch pays for them once.
Group membership, assignment, pausing and recovery stay Faust's; only what an event holds is
different.

The parts of aiokafka used here are private to it, which is why its version is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import faust
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.errors import ConsumerStoppedError, IllegalStateError
from faust.transport.drivers import TRANSPORTS
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from pipeline import leaving
from pipeline.draining import is_usable, pending, read, take
from pipeline.fenced_commits import commit_in
from pipeline.fetch_bounds import UNPACKED_BYTES_MAX
from pipeline.native.loading import kernels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from aiokafka import AIOKafkaConsumer
    from faust.types import AppT, EventT, Message
    from faust.types.transports import ConsumerT

    from pipeline.draining import Drained
    from pipeline.fetches import Fetch

SCHEME = "tally-bulk"
"""The scheme of a broker URL that asks for this transport."""

FETCH_BYTES_MIN = 256 * 1024
FETCH_WAIT_MS = 100
"""The broker answers when it has so many bytes, or after so long with what it has: counting a fetch
costs about the same for one record as for hundreds, and a trickle would come one by one."""

AHEAD_BYTES = 8 << 20
"""About so much is decoded while as much is counted."""


class FetchSchema(faust.Schema[Any, Any]):
    """Hands fetches on as they are: decoding is the pipeline's, on whole columns."""

    def compile(self, app: AppT, **_kwargs: Any) -> Any:
        async def decode(message: Message, *, propagate: bool = False) -> EventT[Any]:  # noqa: ARG001 - Faust awaits it and names the argument
            return app.create_event(None, message.value, {}, message)

        return decode


def _let_go(fetcher: Any, tp: TP) -> None:
    """Nothing is left of what came for a partition: more of it may be fetched."""
    del fetcher._records[tp]
    fetcher._notify(fetcher._wait_consume_future)


class BulkConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, with fetches left whole. It reads what is committed.

    Whether a transaction was aborted is in the log, but after its records: so nothing is fetched
    past the first transaction that is still open.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._reading = ThreadPoolExecutor(1, "tally-reading")

    async def on_thread_stop(self) -> None:
        # Not Faust's own: the consumer's stop may break off, and the thread would be waited for in
        # vain for a minute. What is left of Faust's ends the queue of questions to the consumer.
        await super(driver.AIOKafkaConsumerThread, self).on_thread_stop()
        if self._consumer is not None:
            await leaving.stop(self._consumer)
        self._reading.shutdown(wait=False, cancel_futures=True)

    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_min_bytes = FETCH_BYTES_MIN
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ASYNC109 - Faust's name
        max_records: int | None = None,  # noqa: ARG002 - a fetch is bounded in bytes instead
    ) -> Any:
        if not self.consumer.flow_active:
            return {}
        fetcher = consumer._fetcher
        if consumer._closed or fetcher._closed:
            raise ConsumerStoppedError
        with fetcher._subscriptions.fetch_context():
            drained = await self._drain_all(fetcher, active_partitions)
            if not drained:
                waiter = fetcher._create_fetch_waiter()
                await asyncio.wait([waiter], timeout=timeout)
                if not waiter.done():
                    waiter.cancel()
                    return {}
                waiter.result()
                drained = await self._drain_all(fetcher, active_partitions)
            return drained

    async def _drain_all(self, fetcher: Any, active_partitions: set[TP]) -> dict[TP, Fetch]:
        """What has come in, as much as is decoded ahead. Raises the errors of single fetches."""
        waiting = [tp for tp in list(fetcher._records) if self._may_take(fetcher, tp)]
        drained: dict[TP, tuple[FetchResult, Drained]] = {}
        wire_bytes = unpacked_bytes = 0
        for tp in waiting:
            if tp not in active_partitions:
                if not fetcher._subscriptions.is_assigned(tp):
                    fetcher._records.pop(tp, None)
                continue
            result = fetcher._records.get(tp)
            if result is None:
                continue  # it was dropped while another was read
            try:
                if type(result) is not FetchResult:
                    result.check_raise()
                if not is_usable(result, tp):
                    _let_go(fetcher, tp)
                    continue
                found = await self._read(result, tp)
            except Exception:
                if drained:
                    break  # an error is raised by the next call, after what was drained is used
                if fetcher._records.get(tp) is result:
                    _let_go(fetcher, tp)
                raise
            drained[tp] = result, found
            wire_bytes += found.fetch.size_bytes
            unpacked_bytes += found.unpacked_bytes
            if wire_bytes >= AHEAD_BYTES or unpacked_bytes >= UNPACKED_BYTES_MAX:
                break
        return self._take_all(fetcher, drained)

    async def _read(self, result: FetchResult, tp: TP) -> Drained:
        """In a thread of its own: here heartbeats go on, and elsewhere another fetch is counted."""
        is_counted = tp.topic not in self.app.tables.changelog_topics
        find = is_counted and kernels.are_loaded
        reading = partial(read, pending(result, tp), find=find, is_counted=is_counted)
        found = await asyncio.get_running_loop().run_in_executor(self._reading, reading)
        if found.fetch.size_bytes >= FETCH_BYTES_MIN:
            kernels.load_soon()
        return found

    def _take_all(
        self, fetcher: Any, drained: Mapping[TP, tuple[FetchResult, Drained]]
    ) -> dict[TP, Fetch]:
        """Those whose partitions are still to be read from there, with their positions moved.

        While they were read, anything may have happened to the assignment. From here to their
        delivery nothing is waited for, so that all of it is decided in one moment.
        """
        taken: dict[TP, Fetch] = {}
        for tp, (result, found) in drained.items():
            if fetcher._records.get(tp) is not result or not self._may_take(fetcher, tp):
                continue
            if is_usable(result, tp):
                taken[tp] = take(result, found, tp)
            _let_go(fetcher, tp)
        return taken

    def _may_take(self, fetcher: Any, tp: TP) -> bool:
        if fetcher._subscriptions.reassignment_in_progress or not self.consumer.flow_active:
            return False
        # When recovery ends, Faust empties the agents' queues. A fetch that came a moment too early
        # would be lost while its partition's position has moved on, so none is taken until then.
        return not self.app.rebalancing or tp.topic in self.app.tables.changelog_topics

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """As Faust's; an assignment that is gone is one error, which Faust's recovery knows."""
        try:
            return await super().seek_to_committed()
        except AssertionError as error:
            raise IllegalStateError(str(error)) from error

    async def commit_in(self, offsets: Mapping[TP, int], generation: int) -> bool:
        """Commit offsets if the group is still in `generation`. See BulkConsumer.commit_in."""
        return bool(await self.call_thread(self._commit_in, offsets, generation))

    async def _commit_in(self, offsets: Mapping[TP, int], generation: int) -> bool:
        return await commit_in(self._ensure_consumer(), offsets, generation)

    async def committed(self, tp: TP) -> int | None:
        """The committed offset of a partition, or None. Asks the group's coordinator."""
        offset = await self.call_thread(self._ensure_consumer().committed, tp)
        return cast("int | None", offset)


class BulkConsumer(driver.Consumer):
    """Faust's consumer, yielding one message per fetch: its offset is the last one it covers."""

    _thread: BulkConsumerThread

    def _new_consumer_thread(self) -> BulkConsumerThread:
        return BulkConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def committed(self, tp: TP) -> int | None:
        """The committed offset of a partition, or None. Asks the group's coordinator."""
        return await self._thread.committed(tp)

    async def commit_in(self, offsets: Mapping[TP, int], generation: int) -> bool:
        """Commit next offsets; False if the group has left `generation` behind.

        Raises TryAgainError when the coordinator does not answer.
        """
        return await self._thread.commit_in(offsets, generation)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Message]]:  # noqa: ASYNC109 - Faust's name
        fetches, active = await self._wait_next_records(timeout)
        # Read only now: a rebalance during the wait changes it, and the fetch may be the new one's.
        generation = self.app.consumer_generation_id
        if fetches is None or self.should_stop:
            return
        if not self.flow_active:
            # If the next rebalance takes the assignment away meanwhile, there is nothing to seek.
            with contextlib.suppress(IllegalStateError):
                await self.perform_seek()
            return
        for tp, fetch in cast("Mapping[TP, Fetch]", fetches).items():
            if not self.flow_active or self.app.consumer_generation_id != generation:
                break
            if active is None or tp in active or tp in self._buffered_partitions:
                yield tp, self._to_message(tp, fetch)

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        fetch: Fetch = record
        times = fetch.records.timestamps_ms
        return ConsumerMessage(
            topic=tp.topic,
            partition=tp.partition,
            offset=fetch.next_offset - 1,
            timestamp=float(times[-1]) / 1000 if len(times) else 0.0,
            timestamp_type=1,
            headers=[],
            key=None,
            value=cast("bytes", fetch),
            checksum=None,
            tp=TP(tp.topic, tp.partition),
            generation_id=self.app.consumer_generation_id,
        )


class BulkTransport(driver.Transport):
    """Faust's aiokafka transport with the bulk consumer."""

    Consumer: ClassVar[type[ConsumerT]] = BulkConsumer


TRANSPORTS.aliases[SCHEME] = f"{__name__}:BulkTransport"
