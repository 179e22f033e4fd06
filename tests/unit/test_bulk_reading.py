"""The consumer's thread reads fetches elsewhere, and takes what is still to be taken."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.errors import CorruptRecordException
from faust.types import TP

from pipeline import bulk
from pipeline.bulk import BulkConsumerThread
from pipeline.draining import read
from tests.kit.fetch_results import PLACE, batch_of, result_of

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER = TP("increments", 4)
EVENT = b'{"counter":"a:b"}'


class Consumer(BulkConsumerThread):
    """Only what takes fetches: no thread, no broker."""

    def __init__(self) -> None:
        self.app: Any = SimpleNamespace(
            rebalancing=False, tables=SimpleNamespace(changelog_topics=set())
        )
        self.consumer: Any = SimpleNamespace(flow_active=True)
        self._reading = ThreadPoolExecutor(1)
        self.fetcher: Any = SimpleNamespace(
            _records={},
            _wait_consume_future=None,
            _notify=lambda _future: None,
            _subscriptions=SimpleNamespace(
                reassignment_in_progress=False, is_assigned=lambda _tp: True
            ),
        )

    async def drained(self) -> dict[TP, Any]:
        return await self._drain_all(self.fetcher, {PLACE, OTHER})


def position(result: Any) -> int:
    found: int = result._assignment.state_value(result._topic_partition).position
    return found


async def test_while_a_fetch_is_read_the_consumers_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It sends the heartbeats: a fetch that took longer to read than a session lasts would be read
    by one worker after the other, and be the end of each."""
    may_end = threading.Event()
    threads = []

    def slowly(*args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        assert may_end.wait(20), "the loop stands still"
        return reading(*args, **options)

    reading = read
    monkeypatch.setattr(bulk, "read", slowly)
    consumer = Consumer()
    consumer.fetcher._records[PLACE] = result = result_of(batch_of(0, EVENT))
    draining = asyncio.create_task(consumer.drained())
    await asyncio.sleep(0.05)
    assert (position(result), list(consumer.fetcher._records)) == (0, [PLACE])
    may_end.set()
    fetches = await draining
    assert threads != [threading.current_thread()]
    assert fetches[PLACE].decoded.columns.num_rows == 1
    assert (position(result), consumer.fetcher._records) == (1, {})


def unassigned(consumer: Consumer, result: Any) -> None:
    result._assignment._unassign()


def cleared(consumer: Consumer, result: Any) -> None:
    consumer.fetcher._records.clear()


def moved(consumer: Consumer, result: Any) -> None:
    result._assignment.state_value(result._topic_partition).seek(7)


def rebalancing(consumer: Consumer, result: Any) -> None:
    consumer.app.rebalancing = True


def reassigned(consumer: Consumer, result: Any) -> None:
    consumer.fetcher._subscriptions.reassignment_in_progress = True


def stopped(consumer: Consumer, result: Any) -> None:
    consumer.consumer.flow_active = False


@pytest.mark.parametrize(
    ("meanwhile", "is_kept"),
    [
        (unassigned, False),
        (cleared, False),
        (moved, False),
        (rebalancing, True),
        (reassigned, True),
        (stopped, True),
    ],
)
async def test_what_a_rebalance_overtook_while_it_was_read_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Consumer, Any], None], *, is_kept: bool
) -> None:
    consumer = Consumer()
    consumer.fetcher._records[PLACE] = result = result_of(batch_of(0, EVENT))
    reading = read

    def overtaken(*args: Any, **options: Any) -> Any:
        meanwhile(consumer, result)
        return reading(*args, **options)

    monkeypatch.setattr(bulk, "read", overtaken)
    assert await consumer.drained() == {}
    assert position(result) in {0, 7}, "it is not moved past what nobody counts"
    assert (PLACE in consumer.fetcher._records) is is_kept, "what may be taken later is kept"


async def test_a_result_that_was_read_in_vain_is_whole_for_the_next_call() -> None:
    consumer = Consumer()
    consumer.fetcher._records[PLACE] = result_of(batch_of(0, EVENT) + batch_of(1, EVENT))
    consumer.app.rebalancing = True
    assert await consumer.drained() == {}
    consumer.app.rebalancing = False
    fetches = await consumer.drained()
    assert (len(fetches[PLACE].records), fetches[PLACE].next_offset) == (2, 2)


async def test_what_was_read_before_a_corrupt_fetch_is_used_before_that_is_told() -> None:
    consumer = Consumer()
    damaged = bytearray(batch_of(0, EVENT))
    damaged[-1] ^= 1
    consumer.fetcher._records[PLACE] = result_of(batch_of(0, EVENT))
    consumer.fetcher._records[OTHER] = result_of(bytes(damaged), tp=OTHER)
    assert list(await consumer.drained()) == [PLACE]
    with pytest.raises(CorruptRecordException):
        await consumer.drained()
    assert consumer.fetcher._records == {}, "it is fetched again"


@pytest.mark.parametrize("bound", ["AHEAD_BYTES", "UNPACKED_BYTES_MAX"])
async def test_no_more_partitions_are_read_ahead_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    consumer = Consumer()
    for tp in (PLACE, OTHER):
        consumer.fetcher._records[tp] = result_of(batch_of(0, EVENT), tp=tp)
    monkeypatch.setattr(bulk, bound, 1)
    assert list(await consumer.drained()) == [PLACE]
    assert list(await consumer.drained()) == [OTHER]
