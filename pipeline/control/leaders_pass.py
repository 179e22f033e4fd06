"""The leader's look at how many partitions Kafka has, for reads to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.clickhouse import connect_beside
from pipeline.control.noted_partitions import NotedPartitions, corrected

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

    from schemas.settings import Settings


class NotingPartitions:
    """Notes partitions, pass by pass, while its worker leads. Used by one thread at a time.

    Clients stay open from one pass to the next: a pass is one question to each server.
    """

    def __init__(self, settings: Settings) -> None:
        """Never blocks."""
        self._settings = settings
        self._kafka: topics.Admin | None = None
        self._client: Client | None = None

    def run(self) -> None:
        """One pass. Blocks; raises TryAgainError when a server is away, OperatorError. Whatever it
        raises, the next pass begins with new clients."""
        try:
            self._pass()
        except BaseException:
            self.rest()
            raise

    def rest(self) -> None:
        """Another worker leads: let go of what is open. Hardly blocks."""
        self._kafka = None
        if self._client is not None:
            self._client.close()
            self._client = None

    def _pass(self) -> None:
        if self._kafka is None:
            self._kafka = topics.admin_client(self._settings.kafka)
        if self._client is None:
            self._client = connect_beside(self._settings.clickhouse)
        noted = NotedPartitions(self._client)
        # Read first: what is announced after it is not replaced.
        known = noted.read()
        there_are = topics.partition_counts(self._kafka).get(topics.INCREMENTS, 0)
        partitions = corrected(known, there_are)
        if partitions is not None:
            noted.replace(known, partitions)
