"""How far back the log goes, and from when on a new build can count it exactly.

A log that begins at offset 0 everywhere is complete: all of it is counted. One whose beginning was
deleted has lost rules, and ids that later records may repeat. A new build reads it from where it
begins, but counts only from the first midnight by which it has met the rules of every partition and
then read on for as long as ids are remembered and refused records can be retried: cells are rolled
up by the day of their slot, so a day is counted by one build as a whole. The same holds after a log
that was lost, whose ids the live build still knows. What is older is carried over from that build.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline import topics
from pipeline.errors import BadInputError, OperatorError
from pipeline.groupless import (
    groupless_consumer,
    headers_of,
    partition_ends,
    read_ranges,
    value_of,
)
from pipeline.rules import RULES_KIND, parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import Consumer, Message

    from pipeline.rules import CountingRules
    from schemas.addresses import KafkaAddress

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """What the log has of a partition, and when it first says by which rules it is counted.

    `rules_ms` is log time there: the greatest timestamp up to the first rules record. It is 0, and
    not looked for, where the partition is complete; None where it has no rules.
    """

    partition: int
    start: int
    end: int
    rules_ms: int | None = 0
    rules: CountingRules | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing of it was deleted."""
        return self.start == 0


def read_log(kafka: KafkaAddress) -> list[PartitionLog]:
    """Every partition of the log. Blocks; of those whose beginning is gone it reads as far as their
    first rules, which are at most about an hour away. Raises TryAgainError, OperatorError."""
    consumer = groupless_consumer(kafka)
    with contextlib.closing(consumer):
        return [
            _read_partition(consumer, partition)
            for partition in range(topics.made_partitions(kafka))
        ]


def counts_from_ms(
    log: Iterable[PartitionLog], horizon_ms: int, other_log_ms: int | None = None
) -> int:
    """From when on a build that begins with this log counts, by log time; 0 if from its beginning.

    `horizon_ms` is how long a record that is gone may matter. `other_log_ms` is the last log time
    that was counted in a log which is gone, if there was one. Raises OperatorError where rules are
    missing. Pure.
    """
    ready_ms = [] if other_log_ms is None else [other_log_ms + horizon_ms + 1]
    for one in log:
        if one.is_complete:
            continue
        if one.rules_ms is None:
            raise OperatorError(
                f"partition {one.partition} has no rules between offsets {one.start} and {one.end}:"
                " let a worker of the live build run for a minute, which repeats them"
            )
        ready_ms.append(one.rules_ms + horizon_ms + 1)
    return -(-max(ready_ms) // DAY_MS) * DAY_MS if ready_ms else 0


def longest_horizon_ms(rules: Iterable[CountingRules]) -> int:
    """The longest time that what is gone still matters by any of the rules: ids are remembered for
    so long, and a refused record may be retried while it is not too late. Pure."""
    return max(
        (
            max(family.ids_horizon_ms, family.lateness_ms)
            for one in rules
            for family in (one.default, *one.families.values())
        ),
        default=0,
    )


def known_rules(log: Sequence[PartitionLog]) -> list[CountingRules]:
    """The first rules of partitions whose beginning is gone. Pure."""
    return [one.rules for one in log if one.rules is not None]


def _read_partition(consumer: Consumer, partition: int) -> PartitionLog:
    start, end = partition_ends(consumer, topics.INCREMENTS, partition)
    if start == 0:
        return PartitionLog(partition, start, end)
    log_ms = 0
    for _, _, message in read_ranges(consumer, topics.INCREMENTS, {partition: (start, end)}):
        log_ms = max(log_ms, message.timestamp()[1])
        rules = _rules_of(message)
        if rules is not None:
            return PartitionLog(partition, start, end, log_ms, rules)
    return PartitionLog(partition, start, end, None)


def _rules_of(message: Message) -> CountingRules | None:
    if ("tally-kind", RULES_KIND.encode()) not in headers_of(message):
        return None
    try:
        return parse_rules(value_of(message) or b"")
    except BadInputError:
        return None
