"""How many partitions the log has, noted in ClickHouse for reads, which do not ask Kafka.

Whoever grows the log announces that before Kafka does it, so that no read can be without a
partition and not know it. The leader notes what others did, and takes back what came to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline import topics
from pipeline.errors import TryAgainError
from pipeline.reads.reads import RULES_AGE_S

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

HEARD_S = 2 * RULES_AGE_S
"""So long after it was noted all reads know a number: they remember the one before for RULES_AGE_S,
and the rest is for questions under way and for replicas."""

GROWING_S = 60.0
"""For so long partitions that were announced may be on their way."""

_OF_THE_LOG = "FROM tally.topic_partitions WHERE topic = {topic:String}"
_READ = (
    "SELECT argMax(partitions, seen_at), toUnixTimestamp64Milli(max(seen_at)), "
    f"toUnixTimestamp64Milli(now64(3)) {_OF_THE_LOG}"
)
# Each is later than all before, though ClickHouse's clock may have been set back.
_INSERT = (
    "INSERT INTO tally.topic_partitions (topic, partitions, seen_at) "
    "SELECT {{topic:String}}, {partitions}, "
    "greatest(now64(3, 'UTC'), max(seen_at) + toIntervalMillisecond(1)) "
)
_ANNOUNCE = (
    _INSERT.format(partitions="greatest({partitions:UInt32}, argMax(partitions, seen_at))")
    + _OF_THE_LOG
)
_REPLACE = (
    _INSERT.format(partitions="{partitions:UInt32}")
    + _OF_THE_LOG
    + " HAVING toUnixTimestamp64Milli(max(seen_at)) = {seen_ms:Int64}"
)


class Noted(NamedTuple):
    """A number of partitions, 0 for none, and when it was noted, by ClickHouse's clock."""

    partitions: int = 0
    seen_ms: int = 0
    age_ms: int = 0


class NotedPartitions:
    """What is noted of the log. Methods block, and raise TryAgainError when ClickHouse is away.

    The tables must have been made.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def read(self) -> Noted:
        """What holds now."""
        try:
            [(partitions, seen_ms, now_ms)] = self._client.query(
                _READ, {"topic": topics.INCREMENTS}
            ).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(
                f"ClickHouse did not tell how many partitions are noted: {error}"
            ) from error
        return Noted(int(partitions), int(seen_ms), int(now_ms) - int(seen_ms))

    def announce(self, partitions: int) -> Noted:
        """There will be so many, or more where somebody else has announced more."""
        self._write(_ANNOUNCE, {"partitions": partitions})
        return self.read()

    def replace(self, known: Noted, partitions: int) -> None:
        """There are so many instead; changes nothing if something was noted since `known`."""
        self._write(_REPLACE, {"partitions": partitions, "seen_ms": known.seen_ms})

    def _write(self, statement: str, parameters: dict[str, Any]) -> None:
        try:
            self._client.command(statement, {"topic": topics.INCREMENTS, **parameters})
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(
                f"ClickHouse did not take the number of partitions: {error}"
            ) from error


def corrected(noted: Noted, there_are: int) -> int | None:
    """What is to be noted, given what Kafka has; None where what is noted may stay. Pure.

    More are noted at once. Fewer only when those that were announced are not on their way any more;
    none at all is a topic that is being made.
    """
    is_settled = noted.age_ms > GROWING_S * 1000
    if there_are > noted.partitions or (0 < there_are < noted.partitions and is_settled):
        return there_are
    return None
