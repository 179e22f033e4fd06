"""One process's load: made, sent at its rate, settled."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.load.bad import BadSender
from pipeline.load.figures import Done, Figures
from pipeline.load.generator import Generator
from pipeline.load.settling import Settling
from pipeline.load.truth import Truth
from pipeline.producer import Producer
from pipeline.producer.delivery import only_counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.interrupts import Wishes
    from pipeline.load.mix import Mix
    from pipeline.producer import Places
    from pipeline.sharding import Strategy
    from schemas.addresses import KafkaAddress

BATCH_ROWS = 50_000
TICK_S = 0.02
REPORT_S = 0.5
DELIVERY_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Order:
    """What one process shall send, and for how long: `events` of them, or for `seconds`.

    `rate` is in events a second; 0 is as fast as it goes. The same seed makes the same increments,
    but for their times and for ids, which begin with `run`.
    """

    kafka: KafkaAddress
    mix: Mix
    rate: float
    seconds: float | None
    events: int | None
    strategy: Strategy
    seed: tuple[int, ...]
    run: str
    wants_truth: bool


def due(order: Order, elapsed_s: float, sent: int) -> int:
    """How many to send now, at most BATCH_ROWS. Pure.

    By the clock, not by the tick: a late tick sends more instead of slowing the load.
    """
    count = BATCH_ROWS
    if order.rate:
        allowed_s = elapsed_s if order.seconds is None else min(elapsed_s, order.seconds)
        count = min(count, int(allowed_s * order.rate) - sent)
    if order.events is not None:
        count = min(count, order.events - sent)
    return max(0, count)


def is_over(order: Order, elapsed_s: float, sent: int) -> bool:
    """Whether enough was sent, or it took long enough. Pure."""
    if order.events is not None:
        return sent >= order.events
    return order.seconds is not None and elapsed_s >= order.seconds


def run_load(
    order: Order, clock: Clock, wishes: Wishes, on_figures: Callable[[Figures], None]
) -> Done:
    """Send until it is over, or somebody wants it to end. Blocks until all is known.

    `on_figures` is told now and then how it goes. Raises what Producer raises.
    """
    generator = Generator(order.mix, list(order.seed), order.run)
    truth = Truth(len(order.mix.regions)) if order.wants_truth else None
    producer = Producer(
        order.kafka,
        strategy=order.strategy,
        delivery_timeout=DELIVERY_TIMEOUT_S,
        on_unknown=only_counted,
    )
    bad = BadSender(order.kafka, clock, DELIVERY_TIMEOUT_S, order.seed) if order.mix.bad else None
    load = _Load(order, clock, producer, bad, Settling(clock, truth))
    try:
        load.send(generator, wishes, on_figures)
        load.settle(wishes, on_figures)
    finally:
        producer.close(0)
        if bad is not None:
            bad.close()
    load.settling.end()
    figures = load.figures()
    figures.latencies = load.settling.latencies
    return Done(figures, load.places(), truth.sums() if truth else None)


class _Load:
    """The parts of a load while it runs."""

    def __init__(
        self,
        order: Order,
        clock: Clock,
        producer: Producer,
        bad: BadSender | None,
        settling: Settling,
    ) -> None:
        self.settling = settling
        self._order = order
        self._clock = clock
        self._producer = producer
        self._bad = bad
        self._sent = 0
        self._began_s = clock.monotonic_s()
        self._ended_s: float | None = None
        self._reported_s = self._began_s

    def send(
        self, generator: Generator, wishes: Wishes, on_figures: Callable[[Figures], None]
    ) -> None:
        """Until it is over. Blocks while the producer is full."""
        while not wishes.asked:
            elapsed_s = self._clock.monotonic_s() - self._began_s
            count = due(self._order, elapsed_s, self._sent)
            if count:
                self._send(generator, count)
            self._report(on_figures)
            if is_over(self._order, elapsed_s, self._sent):
                break
            if self._order.rate and count < BATCH_ROWS:
                time.sleep(TICK_S)

    def settle(self, wishes: Wishes, on_figures: Callable[[Figures], None]) -> None:
        """Until all is known, or somebody is in a hurry."""
        while not self._is_settled() and not wishes.hurried:
            self._report(on_figures)
        self._ended_s = self._clock.monotonic_s()

    def figures(self) -> Figures:
        """So far."""
        bad = self._bad
        return Figures(
            sent=self._sent,
            stored=self._producer.stored + (bad.stored if bad else 0),
            unknown=self._producer.unknown + (bad.unknown if bad else 0),
            refused=bad.stored if bad else 0,
            seconds=(self._ended_s or self._clock.monotonic_s()) - self._began_s,
        )

    def places(self) -> Places:
        """Where the last of everything is."""
        if self._bad is not None:
            self.settling.places.add(self._bad.places.items())
        return self.settling.places

    def _is_settled(self) -> bool:
        """Whether all is known; waits a little for it."""
        if not self._producer.flush(REPORT_S):
            return False
        if self._bad is None or self._bad.is_settled:
            return True
        time.sleep(TICK_S)
        return False

    def _send(self, generator: Generator, count: int) -> None:
        made = generator.make(count, self._clock.now_ms())
        began_s = self._clock.monotonic_s()
        receipt = self._producer.increment_many(made.columns)
        self.settling.add(began_s, receipt, made.increments)
        if self._bad is not None:
            self._bad.send(made.bad)
        self._sent += count

    def _report(self, on_figures: Callable[[Figures], None]) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            figures = self.figures()
            figures.recent = self.settling.take_recent()
            on_figures(figures)
