"""Events that are JSON lines already: each is sent as it is, where the producer would send it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.errors import TryAgainError
from pipeline.planning.following import PlanFollower
from pipeline.producer.client import Client, word_of
from pipeline.producer.packing import placed
from pipeline.producer.producer import DELIVERY_TIMEOUT_S
from pipeline.producer.receipts import NotStoredError, Outcome, Receipt, UnknownDeliveryError
from pipeline.producer.reporting import Reporter
from pipeline.sharding import chooser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from confluent_kafka import KafkaError, Message

    from pipeline.clock import Clock
    from schemas.addresses import KafkaAddress

_LINGER_MS = 10


class LineProducer:
    """Sends lines, each a message of its own. Only one thread may send.

    Follows the shard plan, reports its load, and delivers as Producer does. What Kafka has not
    confirmed after `delivery_timeout` seconds is unknown, and is never sent again.
    """

    def __init__(
        self,
        kafka: KafkaAddress,
        *,
        delivery_timeout: float = DELIVERY_TIMEOUT_S,
        clock: Clock | None = None,
    ) -> None:
        """Connects. Blocks until it knows the partitions, and raises what Producer raises."""
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._unknown = 0
        self._chooser = chooser("random")
        self._reporter = Reporter(self._clock)
        self._follower = PlanFollower(kafka, self._clock)
        self._follower.start()
        self._client = Client(
            kafka,
            self._clock,
            delivery_timeout_s=delivery_timeout,
            settings={"linger.ms": _LINGER_MS},
        )

    @property
    def unknown(self) -> int:
        """How many lines Kafka did not confirm in time, or never got."""
        return self._unknown

    def send(self, lines: Sequence[bytes], columns: pa.Table) -> Receipt:
        """Send lines; row i of `columns` (FRAME_SCHEMA) is what the decoder read in line i.

        Blocks while the client's queue is full.
        """
        if not lines:
            return Receipt.of(())
        partitions, rows = placed(columns, self._follower.plan, self._chooser)
        found, which = np.unique(partitions, return_inverse=True)
        outcome = Outcome()
        outcome.packed(which, len(found))
        for number, partition in enumerate(found.tolist()):
            places = np.flatnonzero(which == number).tolist()
            began_s = self._clock.monotonic_s()
            part = _Part(
                outcome,
                number,
                partition,
                len(places),
                began_s=began_s,
                on_settled=self._on_settled,
            )
            for place in places:
                self._send(lines[place], part)
        self._reporter.add(rows)
        self._reporter.report(self._client)
        return Receipt(outcome, 0, len(lines))

    def close(self) -> None:
        """Give up on what is not confirmed by now: it is unknown. May be repeated."""
        self._client.close()
        self._follower.stop()

    def _send(self, line: bytes, part: _Part) -> None:
        try:
            self._client.produce(topics.INCREMENTS, part.partition, line, None, part.told)
        except TryAgainError as error:
            part.settle_one(-1, NotStoredError(f"never sent: {error}"))

    def _on_settled(self, part: _Part) -> None:
        with self._lock:
            self._unknown += part.unknown
        self._client.took(part.partition, (self._clock.monotonic_s() - part.began_s) * 1000)


class _Part:
    """Lines that go together to one partition: one thing to wait for, not thousands."""

    def __init__(
        self,
        outcome: Outcome,
        number: int,
        partition: int,
        lines: int,
        *,
        began_s: float,
        on_settled: Callable[[_Part], None],
    ) -> None:
        """It is frame `number` of the outcome. `on_settled` is called from the client's thread."""
        self.partition = partition
        self.began_s = began_s
        self.unknown = 0
        self._outcome = outcome
        self._number = number
        self._on_settled = on_settled
        self._lock = threading.Lock()
        self._left = lines
        self._last = -1
        self._not_sent = 0
        self._error: TryAgainError | None = None

    def told(self, error: KafkaError | None, message: Message) -> None:
        """Kafka's word on one line."""
        word = word_of(error, message)
        if isinstance(word, int):
            self.settle_one(word, None)
        else:
            self.settle_one(-1, UnknownDeliveryError.because(word))

    def settle_one(self, offset: int, error: TryAgainError | None) -> None:
        """All is known of one line more."""
        with self._lock:
            self._last = max(self._last, offset)
            self.unknown += isinstance(error, UnknownDeliveryError)
            self._not_sent += isinstance(error, NotStoredError)
            self._error = self._error or error
            self._left -= 1
            if self._left:
                return
            if self._not_sent and (self.unknown or self._last >= 0):
                self._error = UnknownDeliveryError(f"only a part is stored ({self._error})")
            # Nobody is told which lines these are, so they are no better than unknown.
            self.unknown += self._not_sent
        self._on_settled(self)
        if self._error is None:
            self._outcome.stored(self._number, self.partition, self._last)
        else:
            self._outcome.failed(self._number, self._error)
