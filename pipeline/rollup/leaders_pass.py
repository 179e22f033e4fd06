"""One pass of the rollup as the leader runs it: on this Kafka and this ClickHouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.clickhouse import connect_beside
from pipeline.control.stored_retention import StoredRetention
from pipeline.rollup.rollup import Rollup

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.rollup.steps import Rolled
    from schemas.settings import Settings


STATEMENT_TIMEOUT_S = 120
"""How long one statement of a pass may take. Each looks at a bounded number of open cells."""


def roll_up_with(settings: Settings, clock: Clock) -> Callable[[], Rolled]:
    """A pass of the rollup. It blocks; raises TryAgainError when a server is away.

    Kafka is asked each time how many partitions there are: a day is over only when it is over in
    every one of them, those included that were made a moment ago. So is ClickHouse for the
    retention: what goes must not depend on which worker leads, nor on the file it started with.
    """

    def roll_up() -> Rolled:
        partitions = topics.increments_partitions(settings.kafka)
        client = connect_beside(settings.clickhouse, answer_timeout_s=STATEMENT_TIMEOUT_S)
        try:
            return Rollup(
                client,
                settings.build,
                settings.replica,
                StoredRetention(client, clock).holding(),
                clock,
                longest_query_s=settings.longest_query_s,
            ).run(partitions)
        finally:
            client.close()

    return roll_up
