"""The topic `tally.shard-plan`: what producers must know to choose a partition, from Kafka alone.

Its record with the key `rules` holds the counting rules that somebody last began to apply, and in
them the number of partitions that ids are routed by. It is compacted, so that retention can never
take that number away, and is read whole, which is a matter of milliseconds. Its other records say
which counters are split (`pipeline/planning/`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.errors import OperatorError
from pipeline.groupless import groupless_consumer, partition_ends
from pipeline.planning.plan import RULES_KEY, PlanRecords
from pipeline.planning.plan_topic import PlanTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.rules import CountingRules
    from schemas.addresses import KafkaAddress


def planned_rules(kafka: KafkaAddress) -> CountingRules | None:
    """The newest rules in the plan, or None if nobody ever applied any. As `read_plan`."""
    return read_plan(kafka).rules


def read_plan(kafka: KafkaAddress) -> PlanRecords:
    """All that is in the plan, which is nothing where nobody has made it.

    Blocks; raises TryAgainError when Kafka is away, OperatorError when the plan cannot be read.
    """
    if topics.SHARD_PLAN not in topics.partition_counts(topics.admin_client(kafka)):
        return PlanRecords()
    with contextlib.closing(PlanTopic(kafka)) as topic:
        return topic.read()


class PlanReader:
    """Reads the plan for whoever must not block."""

    def __init__(self, kafka: KafkaAddress) -> None:
        self._kafka = kafka

    async def planned_rules(self) -> CountingRules | None:
        """As the function of that name, in a thread."""
        return await asyncio.to_thread(planned_rules, self._kafka)


def id_partitions(known: CountingRules | None, partitions: int) -> int:
    """How many partitions ids are routed by, when the log has so many.

    Fixed by the first rules that were applied. Before these, and in a log that was made anew with
    fewer, it is the number there is now: the same that those rules will fix.
    """
    fixed = known.id_partitions if known else 0
    return min(fixed, partitions) if fixed else partitions


def producers_id_partitions(
    planned: CountingRules | None, partitions: int, has_records: Callable[[], bool]
) -> int:
    """How many partitions a producer routes ids by, which must be what those before it did.

    Raises OperatorError where that cannot be known: the log has records, and may have grown since
    they were sent, but there is no plan. `has_records` is asked only if there is none.
    """
    if planned is None and has_records():
        raise OperatorError(
            f"topic {topics.INCREMENTS} has records, but {topics.SHARD_PLAN} does not say by how "
            "many partitions their ids were routed: start a worker, which puts that right"
        )
    return id_partitions(planned, partitions)


def is_missing(planned: CountingRules | None, rules: CountingRules) -> bool:
    """Whether a plan that has `planned` should have `rules`. Pure.

    Never older ones than it has, since compaction would leave these alone; and none that route ids
    by another number of partitions, or do not say by which: only applying decides that.
    """
    if planned is None:
        return bool(rules.id_partitions)
    return rules.id_partitions == planned.id_partitions and rules.supersedes(planned)


def keep_plan_with(kafka: KafkaAddress, clock: Clock) -> Callable[[CountingRules], None]:
    """What writes rules to the plan if it has none, or older ones. Blocks.

    Raises TryAgainError when Kafka is away, OperatorError when the plan cannot be read.
    """

    def keep_plan(rules: CountingRules) -> None:
        if is_missing(planned_rules(kafka), rules):
            record = LogRecord(topics.SHARD_PLAN, 0, rules.bytes, RULES_KEY)
            write_records(kafka, [record], clock)

    return keep_plan


def has_records(kafka: KafkaAddress, partitions: int) -> bool:
    """Whether the increments have, or once had, a record. Blocks; raises TryAgainError."""
    consumer = groupless_consumer(kafka)
    try:
        return any(
            partition_ends(consumer, topics.INCREMENTS, partition)[1] > 0
            for partition in range(partitions)
        )
    finally:
        consumer.close()
