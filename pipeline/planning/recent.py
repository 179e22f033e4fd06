"""What producers reported in the last seconds, added up. Pure.

By when reports arrive, not by their own times: producers' clocks may be wrong.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from pipeline.planning.load import LoadReport

SILENT_MS_MAX = 5_000
"""A producer that has not reported for so long sends nothing worth a report."""

PRODUCERS_MAX = 1_000
"""Of how many producers reports are kept. Further ones are passed over."""

_INTERVAL_MS_MIN = 1_000


@dataclass(frozen=True, slots=True)
class Load:
    """The producers' load at one moment: rows a second by counter, and of all counters.

    `slow` are partitions whose deliveries took longer than allowed for some producer; `retried`
    says that some producer had to send again, which is not known by partition.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    rate: float = 0.0
    slow: Set[int] = frozenset()
    retried: bool = False


class _Arrived(NamedTuple):
    report: LoadReport
    at_ms: int


class RecentReports:
    """The last report of each producer."""

    def __init__(self) -> None:
        self._arrived: dict[str, _Arrived] = {}

    def add(self, report: LoadReport, now_ms: int) -> None:
        """A report that arrived now."""
        if report.producer in self._arrived or len(self._arrived) < PRODUCERS_MAX:
            self._arrived[report.producer] = _Arrived(report, now_ms)

    def load(self, now_ms: int, delivery_p99_ms_max: float) -> Load:
        """What they amount to; producers that fell silent are forgotten."""
        self._arrived = {
            producer: arrived
            for producer, arrived in self._arrived.items()
            # A clock that was set back must not keep one for ever.
            if abs(now_ms - arrived.at_ms) <= SILENT_MS_MAX
        }
        rates: Counter[str] = Counter()
        rate, slow, retried = 0.0, set[int](), False
        for report, _ in self._arrived.values():
            # A short interval, as when a producer closes, is no sign of many rows a second.
            per_second = 1000 / max(report.interval_ms, _INTERVAL_MS_MIN)
            for counter, rows in report.counters:
                rates[counter] += rows * per_second  # type: ignore[assignment]  # counts need not be whole
            rate += report.rows * per_second
            slow |= {p for p, p99 in report.delivery_p99_ms.items() if p99 > delivery_p99_ms_max}
            retried |= report.retries > 0
        return Load(rates, rate, slow, retried)
