"""The whole pipeline's metrics, asked of Kafka and ClickHouse at most every few seconds."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipeline.errors import TallyError
from pipeline.metrics.definitions import pipeline as metric
from pipeline.metrics.figures import Seen, figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pipeline.clock import Clock
    from pipeline.metrics.definition import Definition
    from pipeline.metrics.figures import Figure
    from schemas.settings import Settings

log = logging.getLogger(__name__)

INTERVAL_S = 10.0
"""How old figures may be before they are asked for anew, by the next scrape."""

WAIT_S = 3.0
"""How long a scrape waits for new figures before it takes those that are kept."""

KEPT_S = 60.0
"""How old figures may become, if no new ones can be had; then none are exposed."""


class PipelineCollector(Collector):
    """Asks in a thread, one at a time, when a scrape finds its figures too old.

    `ask` blocks, and raises TallyError when a server is away. Scrapes may come from any thread:
    each is answered within WAIT_S or so, with the figures that are kept, how old they are, and
    whether asking worked.
    """

    def __init__(
        self, ask: Callable[[], Seen], clock: Clock, *, interval_s: float = INTERVAL_S
    ) -> None:
        """Never blocks; nothing is asked before the first scrape."""
        self._ask = ask
        self._clock = clock
        self._interval_s = interval_s
        self._guard = threading.Lock()
        self._asking: threading.Thread | None = None
        self._asked_s = float("-inf")
        self._kept: list[Figure] = []
        self._kept_s = float("-inf")
        self._up = False
        self._told = ""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What is known now. Waits for WAIT_S at most; never raises."""
        asking = self._begin()
        if asking is not None:
            asking.join(WAIT_S)
        with self._guard:
            age_s = self._clock.monotonic_s() - self._kept_s
            kept = self._kept if age_s <= KEPT_S else []
            up = self._up and bool(kept)
        shown = [*kept, (metric.OBSERVED_AGE(), age_s)] if kept else []
        yield from _families([(metric.UP(), up), *shown])

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing, so that being registered asks nobody."""
        return []

    def _begin(self) -> threading.Thread | None:
        """The thread that asks, if figures are too old; begun now, if none is at it."""
        with self._guard:
            if self._clock.monotonic_s() - self._asked_s < self._interval_s:
                return None
            if self._asking is None:
                self._asking = threading.Thread(
                    target=self._refresh, name="pipeline metrics", daemon=True
                )
                self._asking.start()
            return self._asking

    def _refresh(self) -> None:
        trouble = ""
        found: list[Figure] | None = None
        try:
            found = list(figures(self._ask()))
        except Exception as error:  # noqa: BLE001 RUF100  a thread's end is nobody's news: it is told
            trouble = str(error) if isinstance(error, TallyError) else repr(error)
        if trouble and trouble != self._told:  # The same is told once.
            log.warning("the pipeline's metrics are not known: %s", trouble)
        with self._guard:
            now_s = self._clock.monotonic_s()
            if found is not None:
                self._kept, self._kept_s = found, now_s
            self._up, self._told = found is not None, trouble
            self._asked_s, self._asking = now_s, None


def ask_with(settings: Settings, clock: Clock) -> Callable[[], Seen]:
    """What asks this Kafka and this ClickHouse, as `tally status` does. It blocks for seconds at
    most; raises TallyError."""

    def ask() -> Seen:
        # Only the process that serves them needs the clients.
        from pipeline.builds.live import live_build  # noqa: PLC0415
        from pipeline.clickhouse import connect  # noqa: PLC0415
        from pipeline.reads.reads import Reads  # noqa: PLC0415
        from pipeline.reads.status import status  # noqa: PLC0415

        with closing(connect(settings.clickhouse)) as client:
            found = status(settings, Reads(client, clock))
            return Seen(found, live_build(client), settings.rollup_interval_s)

    return ask


def _families(found: list[Figure]) -> Iterator[GaugeMetricFamily]:
    """Figures of one metric together, as the exposition wants them."""
    families: dict[Definition[...], GaugeMetricFamily] = {}
    for series, value in found:
        definition = series.definition
        family = families.get(definition)
        if family is None:
            family = families[definition] = GaugeMetricFamily(
                definition.name, definition.meaning, labels=definition.label_names
            )
        family.add_metric(definition.values_of(series), float(value))
    yield from families.values()
