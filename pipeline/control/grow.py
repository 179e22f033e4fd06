"""`tally partitions`: how many there are, and growing source and changelogs together.

The changelogs grow first, because a worker that is given a partition of the source recovers it from
the same partition of its changelog. Then reads are told, and only when all have heard of it the
source grows: from then on events may be in a partition that no worker has taken over, and no read
may be complete without it. Then every new partition gets the rules. Each step may be repeated, so
what was cut short is set right by asking for the same number again.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipeline import topics
from pipeline.control.noted_partitions import HEARD_S
from pipeline.errors import OperatorError, TallyError

if TYPE_CHECKING:
    from pipeline.control.apply_rules import RulesInLog
    from pipeline.control.noted_partitions import Noted, NotedPartitions
    from schemas.addresses import KafkaAddress

PARTITIONS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Partitions:
    """How many partitions the source and the changelogs have, and by how many ids are routed.

    `ids` stays what it was when the first rules were applied: all occurrences of an id must meet.
    """

    source: int
    changelogs: dict[int, int]
    ids: int | None

    @property
    def most(self) -> int:
        """How many any of them has: Kafka takes none away, so all can have as many."""
        return max(self.source, *self.changelogs.values(), 0)

    @property
    def uneven(self) -> list[int]:
        """The builds whose changelogs have another number than the source."""
        return [build for build, count in self.changelogs.items() if count != self.source]

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return asdict(self)


def partitions_now(kafka: KafkaAddress, rules: RulesInLog) -> Partitions:
    """Ask Kafka. Blocks; raises TryAgainError, and OperatorError when there is no log yet."""
    counts = topics.partition_counts(topics.admin_client(kafka))
    newest = rules.known().newest
    return Partitions(
        rules.partitions(),
        {build: counts[topics.changelog(build)] for build in topics.builds_with_changelog(counts)},
        newest.id_partitions if newest else None,
    )


def grow(kafka: KafkaAddress, rules: RulesInLog, noted: NotedPartitions, wanted: int) -> Partitions:
    """Bring source and changelogs to `wanted` partitions, and the rules into each.

    Blocks, for HEARD_S at least where the source is to grow. Raises OperatorError for fewer than
    there are, since a partition cannot be taken away, and when no rules were applied yet;
    TryAgainError when a server is away or refuses, and then what was done stays done.
    """
    now = partitions_now(kafka, rules)
    if wanted < now.most:
        raise OperatorError(
            f"there are {now.most} partitions already, and Kafka takes none away; ask for more"
        )
    if now.ids is None:
        raise OperatorError(
            "no rules were applied yet, and they fix the number of partitions that ids are routed "
            "by: start a worker, or run `tally rules apply`, then grow"
        )
    admin = topics.admin_client(kafka)
    for build, count in now.changelogs.items():
        if count < wanted:
            topics.grow(admin, topics.changelog(build), wanted)
    announced = noted.announce(wanted)
    if now.source < wanted:
        time.sleep(HEARD_S)
        _grow_source(admin, wanted, noted, announced)
    rules.repeat()
    return partitions_now(kafka, rules)


def _grow_source(
    admin: topics.Admin, wanted: int, noted: NotedPartitions, announced: Noted
) -> None:
    """Takes back what was announced if Kafka refuses. Blocks; raises as `topics.grow`."""
    try:
        topics.grow(admin, topics.INCREMENTS, wanted)
    except topics.NotGrownError:
        # Where this fails as well, the leader does it in a while.
        with contextlib.suppress(TallyError):
            noted.replace(announced, topics.partition_counts(admin)[topics.INCREMENTS])
        raise
