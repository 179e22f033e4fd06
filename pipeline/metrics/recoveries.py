"""How long a worker takes from losing its partitions until it counts again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.metrics.definitions import worker as metric

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter


class Recoveries:
    """One worker's. A rebalance that comes before the last one has ended is part of it."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        """The first one begins now."""
        self._meter = meter
        self._clock = clock
        self._began_s: float | None = clock.monotonic_s()

    def begin(self) -> None:
        """Partitions are taken away."""
        if self._began_s is None:
            self._began_s = self._clock.monotonic_s()

    def end(self) -> None:
        """Counting goes on."""
        self._meter.add(metric.REBALANCES())
        if self._began_s is not None:
            took_s = self._clock.monotonic_s() - self._began_s
            self._meter.observe(metric.RECOVERY_SECONDS(), took_s)
            self._began_s = None
