"""The values of one process's metrics, on prometheus-client."""

from __future__ import annotations

import threading
from itertools import product
from typing import TYPE_CHECKING, Any

import prometheus_client as prometheus
from prometheus_client.process_collector import ProcessCollector

from pipeline.metrics.definition import OTHER, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.registry import Collector

    from pipeline.metrics.definition import (
        AnyDefinition,
        CounterSeries,
        Definition,
        GaugeSeries,
        HistogramSeries,
        Series,
    )

# Without it each counter has a second series, the time it was made at, which nobody asks for.
prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # not typed there


class Metrics:
    """A Meter that keeps what it is told, for the definitions that it is made of.

    A metric is exposed from the start, as 0, if the values of its labels are known: rates need a
    beginning. Others are as soon as they have a value. A label of free text has a bounded number of
    values: what comes later is counted under `other`, so that no input makes it grow for ever.
    """

    def __init__(self, definitions: Iterable[AnyDefinition]) -> None:
        """Never blocks. Adds the process's own memory, processor time and open files."""
        self.registry = prometheus.CollectorRegistry(auto_describe=False)
        self._families: dict[Definition[...], Any] = {}
        self._known: dict[Series, Any] = {}
        self._seen: dict[tuple[str, str], set[str]] = {}
        self._adding = threading.Lock()
        for definition in definitions:
            family = self._families[definition] = _family(definition, self.registry)
            if definition.labels:
                for values in product(*(label.values or () for label in definition.labels)):
                    family.labels(*values)
        ProcessCollector(registry=self.registry)

    def collect_also(self, collector: Collector) -> None:
        """Ask `collector` at each scrape, too."""
        self.registry.register(collector)

    def add(self, series: CounterSeries, amount: float = 1) -> None:
        self._child(series).inc(amount)

    def set(self, series: GaugeSeries, value: float) -> None:
        self._child(series).set(value)

    def observe(self, series: HistogramSeries, value: float) -> None:
        self._child(series).observe(value)

    def read(self, series: GaugeSeries, value: Callable[[], float]) -> None:
        self._child(series).set_function(value)

    def _child(self, series: Series) -> Any:
        known = self._known.get(series)
        if known is None:
            with self._adding:
                known = self._new_child(series)
        return known

    def _new_child(self, series: Series) -> Any:
        definition = series.definition
        family = self._families.get(definition)
        if family is None:
            raise ValueError(f"{definition.name} is not a metric of this process")
        values = definition.values_of(series)
        bounded = tuple(
            self._bounded(definition.name, label.name, value, label.values_max)
            for label, value in zip(definition.labels, values, strict=True)
        )
        child = family.labels(*bounded) if bounded else family
        if bounded == values:  # What has become `other` is not remembered: it has no bound.
            self._known[series] = child
        return child

    def _bounded(self, name: str, label: str, value: str, values_max: int) -> str:
        seen = self._seen.setdefault((name, label), set())
        if value not in seen and len(seen) >= values_max:
            return OTHER
        seen.add(value)
        return value


def _family(definition: AnyDefinition, registry: prometheus.CollectorRegistry) -> Any:
    names = (definition.name, definition.meaning, definition.label_names)
    if isinstance(definition, Counter):
        return prometheus.Counter(*names, registry=registry)
    if isinstance(definition, Gauge):
        return prometheus.Gauge(*names, registry=registry)
    assert isinstance(definition, Histogram)
    return prometheus.Histogram(*names, registry=registry, buckets=definition.buckets)
