"""The topic `tally.shard-plan`: what producers must know to choose a partition, from Kafka alone.

Its record with the key `rules` holds the counting rules that somebody last began to apply, and in
them the number of partitions that ids are routed by. It is compacted, so that retention can never
take that number away, and is read whole, which is a matter of milliseconds.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from pipeline import topics
from pipeline.errors import BadInputError, OperatorError, TryAgainError
from pipeline.groupless import groupless_consumer, partition_ends, value_of
from pipeline.rules import CountingRules, parse_rules

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
