"""Packs batches by the plan of the moment, sends them, and keeps what became of them."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from pipeline import topics
from pipeline.errors import TryAgainError
from pipeline.producer.few import FEW_ROWS, pack_few
from pipeline.producer.packing import ROWS_AT_ONCE, pack
from pipeline.producer.receipts import NotStoredError, UnknownDeliveryError
from pipeline.producer.reporting import Reporter
from pipeline.sharding import chooser
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame, read_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from pipeline.clock import Clock
    from pipeline.planning.plan import Plan
    from pipeline.producer.batch import Batch
    from pipeline.producer.client import Client
    from pipeline.producer.packing import Frame, Packed
    from pipeline.producer.receipts import Outcome
    from pipeline.sharding import Integers, Strategy

log = logging.getLogger(__name__)


UNSETTLED_MAX = 4_000_000
"""How many increments may wait for Kafka's word: each costs eight bytes, for its receipt."""


class Unknown(NamedTuple):
    """Increments that Kafka did not confirm in time: it may have them or not."""

    partition: int
    increments: int
    reason: str
    frame: Frame

    def columns(self) -> pa.Table:
        """The increments as they were packed: those of one cell are one."""
        value = self.frame.value
        if self.frame.is_line:
            fields = msgspec.json.decode(value)
            value = encode_frame({name: [field] for name, field in fields.items()})
        return read_frame(value).columns


def only_counted(_unknown: Unknown) -> None:
    """For `on_unknown`, where the producer's own count of them, and receipts, are enough."""


class Delivery:
    """Sends batches. One thread sends; the rest may be asked by any.

    `on_unknown` is called from the client's thread and must not block.
    """

    def __init__(
        self,
        make_client: Callable[[], Client],
        plan: Callable[[], Plan],
        strategy: Strategy,
        on_unknown: Callable[[Unknown], None],
        clock: Clock,
    ) -> None:
        """Raises BadInputError for a strategy that is not known; no client is made then."""
        self.stored = 0
        self.unknown = 0
        self.not_stored = 0
        self._plan = plan
        self._on_unknown = on_unknown
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._in_flight = np.zeros(0, np.int64)
        self._chooser = chooser(strategy, in_flight=self._rows_in_flight)
        self._reporter = Reporter(clock)
        self._clock = clock
        self._client = make_client()
        self._unsettled_rows = 0

    def wait_for_room(self, timeout_s: float) -> bool:
        """Blocks while too much waits for Kafka's word, at most about that long for its bytes and
        as long again for its number; whether there is room now."""
        if not self._client.wait_for_room(timeout_s):
            return False
        with self._lock:
            return self._settled.wait_for(lambda: self._unsettled_rows < UNSETTLED_MAX, timeout_s)

    def send(self, batch: Batch) -> None:
        """Pack and send a batch; its outcome tells what becomes of it. Blocks only to send."""
        try:
            packed = self._packed(batch)
        except Exception as error:
            # A bug, but what is not sent must be told, and what comes next must be sent.
            log.exception("a batch cannot be packed")
            self.refuse(batch, f"{error!r}")
            return
        begins = np.cumsum([0, *(len(one.frames) for one in packed)])
        batch.outcome.packed(
            np.concatenate([one.frame_of_row + begins[i] for i, one in enumerate(packed)]),
            int(begins[-1]),
        )
        batch.forget()
        frames = [frame for one in packed for frame in one.frames]
        for number, frame in enumerate(frames):
            self._send(frame, number, batch.outcome)
        for one in packed:
            self._reporter.add(one.load)

    def refuse(self, batch: Batch, reason: str) -> None:
        """Nothing of a batch will be sent."""
        with self._lock:
            self.not_stored += batch.rows
        batch.outcome.refused(batch.rows, NotStoredError(f"never sent: {reason}"))
        batch.forget()

    def report(self) -> None:
        """Tell the leader of the load, if a second has passed and there is something to tell."""
        self._reporter.report(self._client)

    def give_up(self) -> None:
        """What is not confirmed by now is unknown. Never blocks."""
        self._client.give_up()

    def close(self) -> None:
        """Give up on what is not confirmed by now: it is unknown. Blocks shortly."""
        self._client.close()

    def _packed(self, batch: Batch) -> list[Packed]:
        plan = self._plan()
        self._grow(plan.partitions)
        now_ms = self._clock.now_ms()
        few = batch.few(FEW_ROWS)
        if few and (packed := pack_few(few, plan)) is not None:
            return [packed]
        return [pack(table, plan, self._chooser, now_ms) for table in batch.tables(ROWS_AT_ONCE)]

    def _send(self, frame: Frame, number: int, outcome: Outcome) -> None:
        self._count(frame, 1)
        try:
            self._client.send(
                topics.INCREMENTS,
                frame.partition,
                frame.value,
                None if frame.is_line else {"content-type": FRAME_CONTENT_TYPE},
                on_stored=partial(self._when_stored, frame, number, outcome),
                on_unknown=partial(self._when_unknown, frame, number, outcome),
            )
        except TryAgainError as error:
            self._count(frame, -1)
            self._when_not_sent(frame, number, outcome, str(error))

    def _when_not_sent(self, frame: Frame, number: int, outcome: Outcome, reason: str) -> None:
        with self._lock:
            self.not_stored += frame.increments
        outcome.failed(number, NotStoredError(f"never sent: {reason}"))

    def _when_stored(self, frame: Frame, number: int, outcome: Outcome, offset: int) -> None:
        self._count(frame, -1)
        with self._lock:
            self.stored += frame.increments
        outcome.stored(number, frame.partition, offset)

    def _when_unknown(self, frame: Frame, number: int, outcome: Outcome, reason: str) -> None:
        self._count(frame, -1)
        with self._lock:
            self.unknown += frame.increments
        self._on_unknown(Unknown(frame.partition, frame.increments, reason, frame))
        outcome.failed(number, UnknownDeliveryError.because(reason))

    def _count(self, frame: Frame, sign: int) -> None:
        with self._lock:
            self._in_flight[frame.partition] += sign * frame.rows
            self._unsettled_rows += sign * frame.increments
            if sign < 0:
                self._settled.notify()

    def _grow(self, partitions: int) -> None:
        with self._lock:
            missing = max(0, partitions - len(self._in_flight))
            self._in_flight = np.append(self._in_flight, np.zeros(missing, np.int64))

    def _rows_in_flight(self) -> Integers:
        with self._lock:
            return self._in_flight.copy()
