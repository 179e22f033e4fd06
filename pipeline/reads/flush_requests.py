"""Asking the owners of all shards to flush now, for reads that are to have everything."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.absorb import FLUSH_KIND
from pipeline.errors import TryAgainError
from pipeline.lanes import KIND_HEADER
from pipeline.producer.client import Client
from pipeline.producer.receipts import Places
from pipeline.reads import receipts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.reads.counts import CountAnswer
    from pipeline.reads.reads import Reads
    from schemas.addresses import KafkaAddress


class FlushRequests:
    """Appends a request to flush to every partition of the log, and tells where. Thread-safe.

    A worker that comes upon it flushes what it has counted up to there, so that whoever waits for
    the places knows everything that was in the log before the request. A request changes no count:
    the log stays the only thing that decides.
    """

    def __init__(self, kafka: KafkaAddress, clock: Clock, *, timeout_s: float = 10.0) -> None:
        """Never blocks: it connects by itself."""
        self._kafka = kafka
        self._timeout_s = timeout_s
        self._client = Client(kafka, clock, delivery_timeout_s=timeout_s)

    def ask(self) -> Places:
        """Where the requests are. Blocks until Kafka has confirmed all of them.

        Raises TryAgainError when it has not in time; owners that have theirs flush all the same.
        """
        partitions = topics.increments_partitions(self._kafka)
        if not partitions:
            raise TryAgainError(f"topic {topics.INCREMENTS} does not exist; start a worker")
        asked = _Asked(partitions)
        for partition in range(partitions):
            self._client.send(
                topics.INCREMENTS,
                partition,
                b"",
                {KIND_HEADER: FLUSH_KIND},
                on_stored=asked.on_stored(partition),
                on_unknown=asked.on_unknown,
            )
        return asked.wait(self._timeout_s)

    def close(self) -> None:
        """Disconnect. Blocks shortly."""
        self._client.close()


def flush_now(kafka: KafkaAddress, reads: Reads, timeout_s: float, clock: Clock) -> str:
    """Have the owners flush what is in the log; why that is not done after so long, or "".

    Blocks. Raises TryAgainError when ClickHouse does not answer.
    """
    # Kafka's client takes no time-out of nothing.
    requests = FlushRequests(kafka, clock, timeout_s=max(1.0, timeout_s))
    try:
        places = requests.ask()
    except TryAgainError as error:
        return str(error)
    finally:
        requests.close()
    receipts.wait_until_counted(reads, places, timeout_s, clock)
    return receipts.told(receipts.behind(reads.positions(), places))


def as_live(answer: CountAnswer, why_not: str) -> CountAnswer:
    """An exact answer, read after the owners were asked to flush. Pure.

    Where they did not all flush it is incomplete, and a remark says why. Strict counters are not
    flushed on request, so theirs stays exact.
    """
    if answer.is_strict:
        return answer
    answer = replace(answer, mode="live")
    if not why_not:
        return answer
    remarks = [*answer.remarks, f"not flushed on request: {why_not}"]
    return replace(answer, complete=False, remarks=remarks)


class _Asked:
    """One round of requests, while Kafka's word on them comes."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._changed = threading.Condition()
        self._places = Places()
        self._why: str | None = None

    def on_stored(self, partition: int) -> Callable[[int], None]:
        def stored(offset: int) -> None:
            with self._changed:
                self._places[partition] = offset
                self._changed.notify_all()

        return stored

    def on_unknown(self, why: str) -> None:
        with self._changed:
            self._why = why
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> Places:
        with self._changed:
            self._changed.wait_for(
                lambda: self._why or len(self._places) == self._partitions, timeout_s
            )
            if len(self._places) == self._partitions:
                return self._places
        raise TryAgainError(f"Kafka did not confirm the requests to flush: {self._why or 'slow'}")
