"""A gentle stream of increments: when each was acknowledged, and when its count was there."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import httpx

from benchmarks._kit import WrongAnswerError
from pipeline.errors import TryAgainError
from pipeline.producer import Producer
from tests.kit.processes import wait_until
from tests.kit.truth.in_clickhouse import ClickHouse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from concurrent.futures import Future

    from benchmarks._faults_cost import Taken
    from pipeline.producer import Receipt

FAMILY = "faults"
COUNTERS = tuple(f"{FAMILY}:key-{number}" for number in range(20))
"""Names that are spread over all of eight partitions, so that each worker has some of them."""

TURN_S = 0.1
RATE_PER_S = len(COUNTERS) / TURN_S
LOOK_EVERY_S = 0.05
POLL_S = 0.2
DELIVERY_TIMEOUT_S = 1800.0
"""No fault is as long: what is sent is acknowledged, sooner or later."""

PAUSE_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 5.0
SEEN = (
    "SELECT counter, toInt64(sum(count)) FROM tally.counts_1m "
    f"WHERE counter >= '{FAMILY}:' AND counter < '{FAMILY};' GROUP BY counter"
)


class Stream:
    """Sends from the start on, one to each counter every turn, until it is left.

    A counter is in one partition, and a producer keeps the order there: so the n-th increment is
    visible once the counter is at n. `truth` is what was acknowledged, by counter.
    """

    def __init__(self, kafka: str, clickhouse: str) -> None:
        """Blocks until the log answers. ClickHouse is asked past whatever harms others' ways."""
        self.truth = dict.fromkeys(COUNTERS, 0)
        self.counted: list[Taken] = []
        self.acknowledged: list[Taken] = []
        self.fell: list[str] = []
        """Where a count was seen that was less than before."""

        self._sent_s: dict[str, list[float]] = {counter: [] for counter in COUNTERS}
        self._seen = dict.fromkeys(COUNTERS, 0)
        self._unheard: queue.SimpleQueue[tuple[str, float, Receipt]] = queue.SimpleQueue()
        self._server = ClickHouse(clickhouse)
        self._producer = Producer(kafka, delivery_timeout=DELIVERY_TIMEOUT_S)
        self._turn = threading.Lock()
        """Held while increments are sent, and while none are."""

        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(3, thread_name_prefix="stream")
        self._running: list[Future[None]] = []

    def __enter__(self) -> Self:
        self._running = [self._pool.submit(one) for one in (self._send, self._hear, self._look)]
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(TryAgainError):  # Who wanted to know it all has paused before.
            self._producer.close(CLOSE_TIMEOUT_S)
        self._pool.shutdown()
        self._server.close()

    def check(self) -> None:
        """Raises what ended one of its threads: WrongAnswerError where a count is too high."""
        for running in self._running:
            if running.done():
                running.result()

    def behind_s(self) -> float:
        """How long ago the oldest was sent that is not acknowledged, or not visible yet."""
        now_s = time.monotonic()
        return max(now_s - self._oldest_s(counter, now_s) for counter in COUNTERS)

    def pause(self) -> None:
        """Send nothing until `resume`. Blocks until everything is acknowledged."""
        self._turn.acquire()
        wait_until(
            self._all_known, "everything that was sent is acknowledged", timeout_s=PAUSE_TIMEOUT_S
        )

    def resume(self) -> None:
        """Go on after `pause`."""
        self._turn.release()

    def _all_known(self) -> bool:
        self.check()
        return all(self.truth[one] == len(self._sent_s[one]) for one in COUNTERS)

    def _oldest_s(self, counter: str, now_s: float) -> float:
        known = min(self.truth[counter], self._seen[counter])
        sent_s = self._sent_s[counter]
        return sent_s[known] if known < len(sent_s) else now_s

    def _send(self) -> None:
        next_s = time.monotonic()
        while not self._over.is_set():
            if self._turn.acquire(timeout=POLL_S):
                try:
                    self._send_turn()
                finally:
                    self._turn.release()
            next_s = max(next_s + TURN_S, time.monotonic())
            time.sleep(max(0.0, next_s - time.monotonic()))

    def _send_turn(self) -> None:
        for counter in COUNTERS:
            sent_s = time.monotonic()
            self._sent_s[counter].append(sent_s)  # First: its count may be seen before it returns.
            self._unheard.put((counter, sent_s, self._producer.increment(counter)))

    def _hear(self) -> None:
        """In the order of sending: nothing is noted as longer than the longest before it was."""
        while not self._over.is_set():
            with suppress(queue.Empty):
                counter, sent_s, receipt = self._unheard.get(timeout=POLL_S)
                receipt.places()
                self.acknowledged.append((sent_s, time.monotonic() - sent_s))
                self.truth[counter] += 1

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            with suppress(httpx.HTTPError):  # Where it is away nobody sees a count.
                self._note(self._server.rows(SEEN), time.monotonic())

    def _note(self, rows: Iterable[Sequence[object]], now_s: float) -> None:
        for counter, count in rows:
            assert isinstance(counter, str)
            assert isinstance(count, int)
            sent_s, before = self._sent_s[counter], self._seen[counter]
            if count > len(sent_s):
                raise WrongAnswerError(f"{counter} is {count} of {len(sent_s)} that were sent")
            if count < before:
                self.fell.append(f"{counter} was {before}, and then {count}")
            self.counted += [(at_s, now_s - at_s) for at_s in sent_s[before:count]]
            self._seen[counter] = max(before, count)
