"""The topic `tally.shard-plan`, read whole and then followed, outside of any consumer group."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from pipeline import topics
from pipeline.errors import BadInputError, OperatorError, TryAgainError
from pipeline.groupless import groupless_consumer, next_messages, partition_ends, value_of
from pipeline.planning.plan import PlanRecords
from pipeline.rules import NewerRulesError

if TYPE_CHECKING:
    from confluent_kafka import Message

    from schemas.addresses import KafkaAddress

log = logging.getLogger(__name__)

_POLL_S = 1.0
_POLLS_MAX = 20
_MESSAGES_MAX = 1_000
_METADATA_TIMEOUT_S = 5.0

# The end is told by a fetch that waited in vain; as its reader waits too, that shall be short.
_FETCH_WAIT_MS = 10
_FOLLOWED_FETCH_WAIT_MS = 500


class PlanTopic:
    """The plan's records as far as they were read. Not thread-safe.

    A topic that was made anew is noticed by its offsets, and read from its beginning.
    """

    def __init__(self, kafka: KafkaAddress, *, followed: bool = False) -> None:
        """Never blocks. One that is followed waits longer for each fetch, so asks less often."""
        self.records = PlanRecords()
        self._kafka = kafka
        self._next_offset = 0
        self._unreadable: str | None = None
        wait_ms = _FOLLOWED_FETCH_WAIT_MS if followed else _FETCH_WAIT_MS
        self._consumer = groupless_consumer(kafka, {"fetch.wait.max.ms": wait_ms})

    def read(self) -> PlanRecords:
        """Everything up to the end. Call it first, and once.

        Blocks; raises TryAgainError when Kafka is away or the topic is not there, OperatorError
        when its rules cannot be read.
        """
        self.read_what_is_readable()
        if self._unreadable is not None:
            raise OperatorError(
                f"topic {topics.SHARD_PLAN} has a record that is {self._unreadable}; a newer Tally "
                "may have written it: use that one, or `tally rules apply` with it again"
            )
        return self.records

    def read_what_is_readable(self) -> PlanRecords:
        """As `read`, but rules that cannot be read are passed over."""
        start, _ = partition_ends(self._consumer, topics.SHARD_PLAN, 0)
        silent = 0
        try:
            self._consumer.assign([TopicPartition(topics.SHARD_PLAN, 0, start)])
            while silent < _POLLS_MAX:
                messages = next_messages(self._consumer, _MESSAGES_MAX, _POLL_S)
                # All are taken, also those that came after the end was told.
                ends = [self._is_end(message) for message in messages]
                if any(ends):
                    return self.records
                silent += all(message.error() for message in messages)
        except KafkaException as error:
            raise TryAgainError(
                f"Kafka did not let {topics.SHARD_PLAN} be read: {error}"
            ) from error
        raise TryAgainError(
            f"Kafka at {self._kafka} did not let {topics.SHARD_PLAN} be read in time"
        )

    def follow(self, timeout_s: float) -> None:
        """Take what has come since; waits up to so long for something.

        Rules that cannot be read are passed over: those before them still hold. While Kafka is
        away nothing comes; the client connects again by itself. Raises TryAgainError for what does
        not pass.
        """
        try:
            for message in next_messages(self._consumer, _MESSAGES_MAX, timeout_s):
                self._is_end(message)
        except KafkaException as error:
            raise TryAgainError(
                f"Kafka did not let {topics.SHARD_PLAN} be followed: {error}"
            ) from error

    def increments_partitions(self) -> int:
        """How many partitions the log has now; 0 for none. Blocks; raises TryAgainError."""
        try:
            found = self._consumer.list_topics(topics.INCREMENTS, timeout=_METADATA_TIMEOUT_S)
        except KafkaException as error:
            raise TryAgainError(f"Kafka at {self._kafka} does not answer: {error}") from error
        topic = found.topics.get(topics.INCREMENTS)
        return 0 if topic is None else len(topic.partitions)

    def close(self) -> None:
        """Waits for what the client is doing."""
        self._consumer.close()

    def _is_end(self, message: Message) -> bool:
        """Takes a message; whether it only says that the topic ends here."""
        error = message.error()
        if error is None:
            self._take(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            return True
        elif not error.retriable() and error.code() not in _PASSING:
            raise KafkaException(error)
        return False

    def _take(self, message: Message) -> None:
        offset = message.offset() or 0
        if offset < self._next_offset:
            self.records = PlanRecords()
        self._next_offset = offset + 1
        try:
            self.records.take(message.key(), value_of(message))
        except (BadInputError, NewerRulesError) as error:
            self._unreadable = str(error)
            log.warning("topic %s has a record that is %s", topics.SHARD_PLAN, error)


# Told while brokers are away, though the client goes on trying by itself.
_PASSING = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE})
