"""Going on with a log that is not the one that was counted: truncated, made anew, or trimmed.

What was counted stays as it is. Counting goes on at the first record that came after it, under a
new incarnation: its cells have keys of their own, so nothing new is hidden by an old cell's greater
values, and nothing old is changed. What a shard keeps beside that is told in `going_on`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from pipeline import topics
from pipeline.control.going_on import after_trim, first_records, in_other_log, is_trimmed
from pipeline.errors import OperatorError, ShardRefusedError, TryAgainError
from pipeline.log_check import WHAT_TO_DO
from pipeline.recovery import RecoveredShard
from pipeline.rules import RULES_KIND, CountingRules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from confluent_kafka.admin import AdminClient

    from pipeline.changelog_writer import ChangelogWriter
    from pipeline.control.flushed import FlushedReads
    from pipeline.log_check import RecoveryReader
    from pipeline.partition_reader import PartitionReader
    from pipeline.shard import Shard

_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """A shard that goes on at `start`, and how many ids and refused places it still knows."""

    shard: int
    incarnation: int
    start: int
    reason: str
    trimmed: bool
    """Whether it is the same log, trimmed; otherwise it is another one."""
    ids: int
    refused: int


class LogAcceptor:
    """Accepts the log of a build whose workers are stopped."""

    def __init__(
        self,
        admin: AdminClient,
        build: int,
        partitions: int,
        *,
        reader: PartitionReader,
        recovery: RecoveryReader,
        changelog: ChangelogWriter,
        flushed: FlushedReads,
        tell: Callable[[Shard], Awaitable[None]],
    ) -> None:
        """`tell` writes to ClickHouse where a shard goes on; it raises TryAgainError."""
        self._admin = admin
        self._group = topics.group_id(build)
        self._partitions = partitions
        self._reader = reader
        self._recovery = recovery
        self._changelog = changelog
        self._flushed = flushed
        self._tell = tell

    async def accept(self) -> list[Accepted]:
        """Accept every shard whose log or offset is not what was counted. Returns those.

        Raises OperatorError while workers run, before anything is written, and TryAgainError when a
        server is away. Shards that were accepted until then stay so; calling again does the rest.
        """
        self._check_stopped()
        accepted = []
        rules = CountingRules()
        committed = self._committed()
        for partition in range(self._partitions):
            found = RecoveredShard(partition)
            while await self._recovery.read_on(found):
                pass
            position = found.position(committed.get(partition))
            if position is None:
                continue  # It was never counted, or its changelog is gone: nothing to go on from.
            shard = found.resume(position)
            rules = shard.rules if shard.rules.supersedes(rules) else rules
            try:
                await self._recovery.check(shard)
            except ShardRefusedError as error:
                accepted.append(await self._begin_anew(shard, error.reason))
        if accepted and rules.version:
            # Shards keep their rules, but a log that was made anew has none for later builds.
            await self._changelog.append_control(topics.INCREMENTS, RULES_KIND, rules.bytes)
        return accepted

    async def _begin_anew(self, shard: Shard, reason: str) -> Accepted:
        start, end = await self._reader.ends(topics.INCREMENTS, shard.partition)
        flushed = self._flushed.read(shard)
        trimmed = is_trimmed(shard, start, end, flushed.through)
        if trimmed:
            anew = after_trim(shard, start, flushed)
        else:
            anew = in_other_log(shard, await self._first_younger(shard, start, end))
        self._check_stopped()
        await self._changelog.append(shard.partition, first_records(anew))
        # Before the commit: where that is missing, all of this is done again. A replay learns by it
        # that the log is another one, though nothing of it is flushed yet.
        await self._tell(anew)
        self._commit(shard.partition, anew.position)
        return Accepted(
            shard.partition,
            anew.incarnation,
            anew.position,
            reason.removesuffix(f"; {WHAT_TO_DO}"),
            trimmed,
            len(anew.ids),
            len(anew.refused),
        )

    async def _first_younger(self, shard: Shard, start: int, end: int) -> int:
        """Where another log has its first record that is younger than what was counted.

        In a log made anew that is its first one; in a log that was truncated, the first new one.
        """
        if shard.last_batch is None:
            return start
        since_ms = shard.last_batch.timestamp_ms + 1
        found = await self._reader.offset_at(topics.INCREMENTS, shard.partition, since_ms)
        return end if found is None else found

    def _check_stopped(self) -> None:
        """Raise OperatorError while the build's group has members: workers would not notice."""
        try:
            futures = self._admin.describe_consumer_groups([self._group])
            members = futures[self._group].result(timeout=_TIMEOUT_S).members
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return
            raise TryAgainError(f"Kafka did not tell who counts: {error}") from error
        except TimeoutError:
            raise TryAgainError("Kafka did not tell who counts in time") from None
        if members:
            hosts = ", ".join(sorted({member.host.lstrip("/") for member in members}))
            raise OperatorError(
                f"workers of group {self._group} run, or were killed less than ten seconds ago (on "
                f"{hosts}): stop all of them (`tally up --workers 0` runs the servers alone), "
                "then run this again"
            )

    def _committed(self) -> dict[int, int]:
        request = [ConsumerGroupTopicPartitions(self._group)]
        try:
            futures = self._admin.list_consumer_group_offsets(request)
            found = futures[self._group].result(timeout=_TIMEOUT_S).topic_partitions
        except KafkaException as error:
            raise TryAgainError(f"Kafka did not tell the committed offsets: {error}") from error
        except TimeoutError:
            raise TryAgainError("Kafka did not tell the committed offsets in time") from None
        return {
            one.partition: one.offset
            for one in found
            if one.topic == topics.INCREMENTS and one.offset >= 0
        }

    def _commit(self, partition: int, offset: int) -> None:
        place = TopicPartition(topics.INCREMENTS, partition, offset)
        request = [ConsumerGroupTopicPartitions(self._group, [place])]
        try:
            futures = self._admin.alter_consumer_group_offsets(request)
            [done] = futures[self._group].result(timeout=_TIMEOUT_S).topic_partitions
            if done.error is not None:
                raise KafkaException(done.error)
        except KafkaException as error:
            raise OperatorError(
                f"the offset of shard {partition} cannot be set: stop all workers of this build "
                f"first, and wait ten seconds if one was killed ({error})"
            ) from error
        except TimeoutError:
            raise TryAgainError(
                f"Kafka did not set the offset of shard {partition} in time"
            ) from None
