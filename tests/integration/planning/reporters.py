"""A producer that sends nothing but load reports."""

import threading
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from confluent_kafka import Producer

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.planning.load import LoadReport, encode, heaviest

INTERVAL_S = 0.3


class Reporter:
    """Reports the same again and again, in a thread, until its block ends."""

    def __init__(self, kafka: str, rates: dict[str, int], **more: Any) -> None:
        self._producer = Producer({"bootstrap.servers": kafka, "log_level": 0})
        self._rates = rates
        self._more = more
        self._name = str(uuid4())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            counters, rows = heaviest(self._rates), sum(self._rates.values())
            report = LoadReport(
                self._name, SystemClock().now_ms(), 1000, counters, rows, **self._more
            )
            self._producer.produce(topics.LOAD, encode(report))
            self._producer.produce(topics.LOAD, b"junk")
            self._producer.flush(5)
