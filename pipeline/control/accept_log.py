"""Going on with a log that is not the one that was counted: truncated, made anew, or trimmed.

What was counted stays as it is. Counting goes on at the first record that came after it, under a
new incarnation: its cells have keys of their own, so nothing new is hidden by an old cell's greater
values, and nothing old is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from pipeline import topics
from pipeline.changelog import position_record
from pipeline.errors import OperatorError, ShardRefusedError, TryAgainError
from pipeline.recovery import RecoveredShard
from pipeline.rules import RULES_KIND, CountingRules
from pipeline.shard import Shard

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from pipeline.changelog_writer import ChangelogWriter
    from pipeline.log_check import RecoveryReader
    from pipeline.partition_reader import PartitionReader

_TIMEOUT_S = 20.0
_GENERATION = 0
"""Of position records that no worker wrote: groups count theirs from 1."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A shard that goes on at `start` of a log it was not counted from."""

    shard: int
    incarnation: int
    start: int
    reason: str


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
    ) -> None:
        self._admin = admin
        self._group = topics.group_id(build)
        self._partitions = partitions
        self._reader = reader
        self._recovery = recovery
        self._changelog = changelog

    async def accept(self) -> list[Accepted]:
        """Accept every shard whose log or offset is not what was counted. Returns those.

        Raises OperatorError while workers run, TryAgainError when Kafka is away.
        """
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
            try:
                await self._recovery.check(shard)
            except ShardRefusedError as error:
                accepted.append(await self._begin_anew(shard, error.reason))
                rules = shard.rules if shard.rules.supersedes(rules) else rules
        if rules.version:
            # Shards keep their rules, but a log that was made anew has none for later builds.
            await self._changelog.append_control(topics.INCREMENTS, RULES_KIND, rules.bytes)
        return accepted

    async def _begin_anew(self, shard: Shard, reason: str) -> Accepted:
        """Where the log has its first record that is younger than what was counted."""
        partition = shard.partition
        start, end = await self._reader.ends(topics.INCREMENTS, partition)
        if shard.last_batch is not None and start <= shard.position:
            since_ms = shard.last_batch.timestamp_ms + 1
            found = await self._reader.offset_at(topics.INCREMENTS, partition, since_ms)
            start = end if found is None else found
        anew = Shard(
            partition,
            start,
            shard.log_ms,
            shard.incarnation + 1,
            shard.rules,
            replica=shard.replica,
        )
        record = position_record(anew.snapshot(checkpoint=False), _GENERATION)
        await self._changelog.append(partition, [record])
        self._commit(partition, start)
        return Accepted(partition, anew.incarnation, start, reason)

    def _committed(self) -> dict[int, int]:
        request = [ConsumerGroupTopicPartitions(self._group)]
        try:
            futures = self._admin.list_consumer_group_offsets(request)
            found = futures[self._group].result(timeout=_TIMEOUT_S).topic_partitions
        except KafkaException as error:
            raise TryAgainError(f"Kafka did not tell the committed offsets: {error}") from error
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
