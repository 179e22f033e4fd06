"""What the door tells of its queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.embedded.clickhouse.statement_kind import Kind
from pipeline.metrics.definitions import clickhouse as metric

if TYPE_CHECKING:
    from pipeline.clock import Clock
    from pipeline.embedded.clickhouse.execution import Execution
    from pipeline.metrics.definitions.clickhouse import QueryKind, QueryOutcome
    from pipeline.metrics.meter import Meter

_KINDS: dict[Kind, QueryKind] = {
    Kind.READ: "read",
    Kind.LOAD: "insert",
    Kind.LOAD_SELECT: "insert",
    Kind.SET: "other",
    Kind.USE: "other",
    Kind.OTHER: "other",
}
assert set(_KINDS) == set(Kind)


class QueryMeasure:
    """One query, from the moment this is made until `end`; what came of it is set meanwhile."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self._meter = meter
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self.execution: Execution | None = None
        self.outcome: QueryOutcome = "given_up"
        self.received_bytes = 0
        self.sent_bytes = 0

    def end(self) -> None:
        """Tell all of it. Called once."""
        statement = None if self.execution is None else self.execution.statement
        kind: QueryKind = "unknown" if statement is None else _KINDS[statement.kind]
        meter = self._meter
        meter.add(metric.QUERIES(kind=kind, outcome=self.outcome))
        meter.observe(metric.QUERY_SECONDS(kind=kind), self._clock.monotonic_s() - self._began_s)
        meter.add(metric.RECEIVED_BYTES(), self.received_bytes)
        meter.add(metric.SENT_BYTES(), self.sent_bytes)
