"""What a producer sent lately: the figures by which the leader splits hot counters. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.planning.load import COUNTERS_MAX, LoadReport, heaviest

if TYPE_CHECKING:
    from pipeline.producer.packing import Load

REPORT_RATE_MIN = 100
"""Rows a second of one counter that are worth a report."""

REPORT_P99_MS = 100.0
"""So slow a delivery is worth one, too."""

_COUNTERS_KEPT = 100 * COUNTERS_MAX


class LoadMeter:
    """Adds up what is packed, from one report to the next. Not thread-safe."""

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


def is_worth_telling(report: LoadReport) -> bool:
    """Whether somebody who spreads load should know of it."""
    greatest = report.counters[0][1] if report.counters else 0
    return (
        greatest * 1000 >= REPORT_RATE_MIN * report.interval_ms
        or any(p99 >= REPORT_P99_MS for p99 in report.delivery_p99_ms.values())
        or report.retries > 0
    )
