"""Waits for receipts in a thread of its own, and takes in what they say."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from pipeline.errors import TryAgainError
from pipeline.load.latencies import Latencies
from pipeline.producer.receipts import Places

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.load.generator import Increments
    from pipeline.load.truth import Truth
    from pipeline.producer import Receipt

    Waiting = tuple[float, Receipt, Increments]


class Settling:
    """One thread gives receipts, in the order in which they were got.

    Only what is confirmed goes into `truth`. A latency is from giving to sending to Kafka's word.
    """

    def __init__(self, clock: Clock, truth: Truth | None) -> None:
        self.places = Places()
        self.latencies = Latencies()
        self._recent = Latencies()
        self._clock = clock
        self._truth = truth
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tally-settling", daemon=True)
        self._thread.start()

    def add(self, began_s: float, receipt: Receipt, increments: Increments) -> None:
        """Wait for a receipt of what was given at `began_s`. Never blocks."""
        self._queue.put((began_s, receipt, increments))

    def take_recent(self) -> Latencies:
        """The latencies since this was last asked."""
        with self._lock:
            recent, self._recent = self._recent, Latencies()
            self.latencies.merge(recent)
        return recent

    def end(self) -> None:
        """Blocks until all receipts are settled."""
        self._queue.put(None)
        self._thread.join()
        self.take_recent()

    def _run(self) -> None:
        while (waiting := self._queue.get()) is not None:
            began_s, receipt, increments = waiting
            try:
                places = receipt.places()
            except TryAgainError:
                continue  # The producer counts what is unknown.
            with self._lock:
                self._recent.add((self._clock.monotonic_s() - began_s) * 1000)
            self.places.add(places.items())
            if self._truth is not None:
                self._truth.add(increments)
