"""What a producer sent lately: the figures by which the leader splits hot counters."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np

from pipeline import topics
from pipeline.planning.load import COUNTERS_MAX, LoadReport, encode, heaviest

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.producer.client import Client
    from pipeline.producer.packing import Load

INTERVAL_S = 1.0

REPORT_RATE_MIN = 10
"""Rows a second of one counter that are worth a report: there may be hundreds of producers."""

REPORT_P99_MS = 100.0
"""So slow a delivery is worth one, too."""

_COUNTERS_KEPT = 100 * COUNTERS_MAX


class LoadMeter:
    """Adds up what is packed, from one report to the next. Pure; not thread-safe."""

    def __init__(self, producer: str) -> None:
        self._producer = producer
        self._rows = 0
        self._by_counter: dict[str, int] = {}

    def add(self, load: Load) -> None:
        """Count a batch's rows; of many counters only the heaviest."""
        self._rows += int(load.rows.sum())
        codes = np.flatnonzero(load.rows > 1)
        if len(codes) > COUNTERS_MAX:
            codes = codes[np.argpartition(load.rows[codes], -COUNTERS_MAX)[-COUNTERS_MAX:]]
        if len(self._by_counter) > _COUNTERS_KEPT:
            self._by_counter = dict(heaviest(self._by_counter))
        for code in codes.tolist():
            name = load.counters[code].as_py()
            self._by_counter[name] = self._by_counter.get(name, 0) + int(load.rows[code])

    def take(
        self, at_ms: int, interval_ms: int, delivery_p99_ms: dict[int, float], retries: int
    ) -> LoadReport | None:
        """The report of what was added since the last one; None if nothing is worth telling."""
        report = LoadReport(
            self._producer,
            at_ms,
            max(1, interval_ms),
            heaviest(self._by_counter),
            self._rows,
            delivery_p99_ms,
            retries,
        )
        self._rows, self._by_counter = 0, {}
        return report if is_worth_telling(report) else None


class Reporter:
    """Tells the leader of the load, about once a second, while there is something to tell.

    Not thread-safe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._meter = LoadMeter(uuid.uuid4().hex)
        self._reported_s = clock.monotonic_s()

    def add(self, load: Load) -> None:
        """What was packed."""
        self._meter.add(load)

    def report(self, client: Client) -> None:
        """Tell, if a second has passed. Never blocks, never raises."""
        now_s = self._clock.monotonic_s()
        interval_s = now_s - self._reported_s
        if interval_s < INTERVAL_S:
            return
        self._reported_s = now_s
        figures = client.take_figures()
        report = self._meter.take(self._clock.now_ms(), round(interval_s * 1000), *figures)
        if report is not None:
            client.tell(topics.LOAD, encode(report))


def is_worth_telling(report: LoadReport) -> bool:
    """Whether somebody who spreads load should know of it."""
    greatest = report.counters[0][1] if report.counters else 0
    return (
        greatest * 1000 >= REPORT_RATE_MIN * report.interval_ms
        or any(p99 >= REPORT_P99_MS for p99 in report.delivery_p99_ms.values())
        or report.retries > 0
    )
