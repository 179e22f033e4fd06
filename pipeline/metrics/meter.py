"""What a part of a process tells its metrics to, and one that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.metrics.definition import CounterSeries, GaugeSeries, HistogramSeries


class Meter(Protocol):
    """Takes values of metrics. Its methods take a microsecond or two, never block on I/O, and may
    be called by any thread. They raise ValueError for a metric that is not this process's."""

    def add(self, series: CounterSeries, amount: float = 1) -> None:
        """A counter grows."""
        ...

    def set(self, series: GaugeSeries, value: float) -> None:
        """A gauge is this now."""
        ...

    def observe(self, series: HistogramSeries, value: float) -> None:
        """A histogram has one observation more."""
        ...

    def read(self, series: GaugeSeries, value: Callable[[], float]) -> None:
        """A gauge is whatever `value` returns at each scrape; another thread calls it then."""
        ...


class _Unmeasured:
    """Keeps nothing, for whoever runs a part without metrics."""

    def add(self, series: CounterSeries, amount: float = 1) -> None: ...

    def set(self, series: GaugeSeries, value: float) -> None: ...

    def observe(self, series: HistogramSeries, value: float) -> None: ...

    def read(self, series: GaugeSeries, value: Callable[[], float]) -> None: ...


UNMEASURED: Meter = _Unmeasured()
