"""The topic `tally.shard-plan`: what producers must know to choose a partition, from Kafka alone.

Its record with the key `rules` holds the counting rules that somebody last began to apply, and in
them the number of partitions that ids are routed by. It is compacted, so that retention can never
take that number away, and is read whole, which is a matter of milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from pipeline import topics
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.errors import BadInputError, OperatorError, TryAgainError
from pipeline.groupless import groupless_consumer, partition_ends, value_of
from pipeline.rules import CountingRules, parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock

RULES_KEY = b"rules"

_POLL_S = 1.0
_POLLS_MAX = 20
# The end is told by a fetch that waited in vain; as its reader waits too, that shall be short.
_FETCH_WAIT_MS = 10


def planned_rules(kafka: str) -> CountingRules | None:
    """The newest rules in the plan, or None if nobody ever applied any.

    Blocks; raises TryAgainError when Kafka is away, OperatorError when the plan cannot be read.
    """
    if topics.SHARD_PLAN not in topics.partition_counts(topics.admin_client(kafka), kafka):
        return None
    newest: CountingRules | None = None
    for key, value in _records(kafka):
        if key == RULES_KEY and value is not None:
            rules = _parsed(value)
            if newest is None or rules.supersedes(newest):
                newest = rules
    return newest


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


def keep_plan_with(kafka: str, clock: Clock) -> Callable[[CountingRules], None]:
    """What writes rules to the plan if it has none, or older ones. Blocks.

    Raises TryAgainError when Kafka is away, OperatorError when the plan cannot be read.
    """

    def keep_plan(rules: CountingRules) -> None:
        if is_missing(planned_rules(kafka), rules):
            record = LogRecord(topics.SHARD_PLAN, 0, rules.bytes, RULES_KEY)
            write_records(kafka, [record], clock)

    return keep_plan


def has_records(kafka: str, partitions: int) -> bool:
    """Whether the increments have, or once had, a record. Blocks; raises TryAgainError."""
    consumer = groupless_consumer(kafka)
    try:
        return any(
            partition_ends(consumer, topics.INCREMENTS, partition)[1] > 0
            for partition in range(partitions)
        )
    finally:
        consumer.close()


def _parsed(value: bytes) -> CountingRules:
    try:
        return parse_rules(value)
    except BadInputError as error:
        raise OperatorError(
            f"topic {topics.SHARD_PLAN} has a record that is {error}; a newer Tally may have "
            "written it: use that one, or `tally rules apply` with it again"
        ) from error


def _records(kafka: str) -> list[tuple[object, bytes | None]]:
    """Key and value of every record, in order."""
    found: list[tuple[object, bytes | None]] = []
    consumer = groupless_consumer(kafka, {"fetch.wait.max.ms": _FETCH_WAIT_MS})
    try:
        start, _ = partition_ends(consumer, topics.SHARD_PLAN, 0)
        consumer.assign([TopicPartition(topics.SHARD_PLAN, 0, start)])
        silent = 0
        while silent < _POLLS_MAX:
            message = consumer.poll(_POLL_S)
            error = None if message is None else message.error()
            if message is None:
                silent += 1
            elif error is None:
                found.append((message.key(), value_of(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            elif not error.retriable():
                raise KafkaException(error)
    except KafkaException as error:
        raise TryAgainError(f"Kafka did not let {topics.SHARD_PLAN} be read: {error}") from error
    finally:
        consumer.close()
    raise TryAgainError(f"Kafka at {kafka} did not let {topics.SHARD_PLAN} be read in time")
