"""One pass of the trends as the leader runs it: on this Kafka and this ClickHouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.clickhouse import connect_beside
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.control.stored_retention import StoredRetention
from pipeline.trends.scoring import TrendScoring

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pipeline.clock import Clock
    from pipeline.rules import CountingRules
    from pipeline.trends.scoring import TrendsScored
    from pipeline.trends.transitions import Transition
    from schemas.settings import Settings

STATEMENT_TIMEOUT_S = 120
_RECORDS_AT_ONCE = 1_000


def score_trends_with(settings: Settings, clock: Clock) -> Callable[[CountingRules], TrendsScored]:
    """A pass of the trends. It blocks; raises TryAgainError when a server is away."""

    def send(found: Sequence[Transition]) -> None:
        records = [LogRecord(topics.TRENDS, 0, one.to_bytes(), one.id.encode()) for one in found]
        for start in range(0, len(records), _RECORDS_AT_ONCE):
            write_records(settings.kafka, records[start : start + _RECORDS_AT_ONCE], clock)

    def score_trends(rules: CountingRules) -> TrendsScored:
        partitions = topics.increments_partitions(settings.kafka)
        client = connect_beside(settings.clickhouse, answer_timeout_s=STATEMENT_TIMEOUT_S)
        try:
            retention = StoredRetention(client, clock).holding()
            scoring = TrendScoring(
                client, settings.build, settings.replica, retention, send=send, clock=clock
            )
            return scoring.run(partitions, rules)
        finally:
            client.close()

    return score_trends
