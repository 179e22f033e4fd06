"""Going on with a log that is not the one that was counted: truncated, made anew, or trimmed.

What was counted stays as it is. Counting goes on at the first record that came after it, under a
new incarnation: its cells have keys of their own, so nothing new is hidden by an old cell's greater
values, and nothing old is changed. What a shard keeps beside that is told in `going_on`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from pipeline import topics
from pipeline.absorb import absorb
from pipeline.builds.members import hosts_of_members
from pipeline.changelog_writer import BrokenProducerError
from pipeline.control.going_on import (
    after_trim,
    first_records,
    in_other_log,
    is_trimmed,
    keep_flushed,
    with_recovered,
)
from pipeline.errors import OperatorError, ShardRefusedError, TryAgainError
from pipeline.faults import reach
from pipeline.fetches import cut_after
from pipeline.flushed_check import check_incarnation
from pipeline.log_check import WHAT_TO_DO
from pipeline.recovery import RecoveredShard
from pipeline.rules import RULES_KIND, CountingRules
from pipeline.shard import NOTHING_COUNTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.builds.positions import Reached
    from pipeline.changelog_writer import ChangelogWriter
    from pipeline.control.flushed import FlushedReads
    from pipeline.dead_letters import DeadLetter
    from pipeline.log_check import RecoveryReader
    from pipeline.partition_reader import PartitionReader
    from pipeline.shard import Shard
    from schemas.addresses import KafkaAddress

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


class Tell(Protocol):
    """Writes to ClickHouse; returns when it has confirmed, raises TryAgainError when it is away."""

    async def letters(self, letters: Sequence[DeadLetter]) -> None:
        """What people look at of dead letters; they are in their topic."""
        ...

    async def position(self, shard: Shard) -> None:
        """Where a shard goes on."""
        ...


_INTERRUPTED = "it was accepted by a run that was interrupted, and is finished now"


class LogAcceptor:
    """Accepts the log of a build whose workers are stopped."""

    def __init__(
        self,
        kafka: KafkaAddress,
        build: int,
        partitions: int,
        *,
        reader: PartitionReader,
        recovery: RecoveryReader,
        changelog: ChangelogWriter,
        flushed: FlushedReads,
        counted: Mapping[int, Reached],
        tell: Tell,
    ) -> None:
        """`counted` is how far ClickHouse has the build."""
        self._kafka = kafka
        self._admin = topics.admin_client(kafka)
        self._build = build
        self._group = topics.group_id(build)
        self._partitions = partitions
        self._reader = reader
        self._recovery = recovery
        self._changelog = changelog
        self._flushed = flushed
        self._counted = counted
        self._tell = tell

    async def accept(self) -> list[Accepted]:
        """Accept every shard whose log or offset is not what was counted. Returns those.

        Raises OperatorError while workers run, before anything is written, and TryAgainError when a
        server is away. Shards that were accepted until then stay so; another call, of a process of
        its own, does the rest.
        """
        try:
            return await self._accept()
        except BrokenProducerError as error:
            raise TryAgainError(f"{error}; run this again") from error

    async def _accept(self) -> list[Accepted]:
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
            if (one := await self._accept_shard(shard)) is not None:
                accepted.append(one)
        if accepted and rules.version:
            # Shards keep their rules, but a log that was made anew has none for later builds.
            await self._changelog.append_control(topics.INCREMENTS, RULES_KIND, rules.bytes)
        return accepted

    async def _accept_shard(self, shard: Shard) -> Accepted | None:
        """None if log and offset are what was counted."""
        counted = self._counted.get(shard.partition)
        if counted is not None:
            try:
                check_incarnation(shard, counted)
            except ShardRefusedError as error:
                return await self._go_on_without_end(shard, counted, error.reason)
        try:
            await self._recovery.check(shard)
        except ShardRefusedError as error:
            return await self._begin_anew(shard, counted, error.reason)
        if counted is None or counted.incarnation < shard.incarnation:
            if not shard.incarnation:
                return None
            return await self._finish(shard, _INTERRUPTED, trimmed=False)
        try:
            await self._recovery.check_flushed(shard, counted.through, counted.log_ms)
        except ShardRefusedError as error:
            return await self._go_on_without_end(shard, counted, error.reason)
        return None

    async def _begin_anew(self, shard: Shard, counted: Reached | None, reason: str) -> Accepted:
        start, end = await self._reader.ends(topics.INCREMENTS, shard.partition)
        flushed = with_recovered(self._flushed.read(shard), shard)
        trimmed = is_trimmed(shard, start, end, flushed.through)
        if trimmed:
            anew = after_trim(shard, start, flushed)
        else:
            # Log time is of all that was counted, in logs before this one, too.
            log_ms = max(shard.log_ms, counted.log_ms if counted else 0)
            younger = await self._recovery.first_younger(shard.partition, end - 1, log_ms)
            behind = end if younger is None else younger
            anew = in_other_log(shard, behind)
            anew.log_ms = log_ms
            through = NOTHING_COUNTED
            if counted is not None and counted.incarnation == shard.incarnation:
                through = counted.through
            if shard.position < start and behind > through:
                # It has lost its end as well, so what of it is there was not made anew; and has no
                # other records in the place of those that were counted. So a cut flush may have
                # been of these.
                keep_flushed(anew, flushed, end)
        return await self._go_on(anew, reason, trimmed=trimmed)

    async def _go_on_without_end(self, shard: Shard, counted: Reached, reason: str) -> Accepted:
        """The log has all that was checkpointed, and lost of what was flushed beyond; or it is the
        changelog that has lost its end, and with it an incarnation.

        What the log kept of what was flushed beyond is read, for its ids, members, rules and dead
        letters; the counts of all are in ClickHouse.
        """
        partition, through = shard.partition, counted.through
        _, end = await self._reader.ends(topics.INCREMENTS, partition)
        if shard.incarnation < counted.incarnation:
            # In which its position says nothing; but what is no younger, it knows or never will.
            found = await self._reader.offset_at(topics.INCREMENTS, partition, shard.log_ms + 1)
            shard = in_other_log(shard, end if found is None else found)
            shard.incarnation = counted.incarnation
        flushed = with_recovered(self._flushed.read(shard), shard)
        younger = await self._recovery.first_younger(partition, through, counted.log_ms)
        kept = min(end, through + 1) if younger is None else younger
        letters: list[DeadLetter] = []
        while shard.position < kept:
            fetch = await self._recovery.read_ahead(partition, shard.position)
            if fetch is None:
                break
            if fetch.next_offset > kept:
                fetch, _ = cut_after(fetch, kept - 1)
            letters += absorb(shard, fetch).dead_letters
        # Before the shard goes on: nobody will read what they are of again.
        await self._changelog.append_dead_letters(letters)
        await self._tell.letters(letters)
        anew = in_other_log(shard, kept)
        # Log time is of all that was flushed, though the log has lost it: by that, days are over.
        anew.log_ms = max(anew.log_ms, counted.log_ms)
        if younger is None:
            # A flush may have been cut between cells and the row that tells how far it came. What
            # it did not come to is nowhere, so all of its records are read again.
            keep_flushed(anew, flushed, end)
        return await self._go_on(anew, reason, trimmed=False)

    async def _go_on(self, anew: Shard, reason: str, *, trimmed: bool) -> Accepted:
        """Write a shard down as it goes on."""
        self._check_stopped()
        await self._changelog.append(anew.partition, first_records(anew))
        reach("accept-changelog", 1)
        return await self._finish(anew, reason, trimmed=trimmed)

    async def _finish(self, anew: Shard, reason: str, *, trimmed: bool) -> Accepted:
        """Tell others of a shard that the changelog has as it goes on.

        ClickHouse is last to know: where it does not, this is done again. A replay learns by it
        that the log is another one, though nothing of it is flushed yet.
        """
        self._commit(anew.partition, anew.position)
        reach("accept-commit", 1)
        await self._tell.position(anew)
        return Accepted(
            anew.partition,
            anew.incarnation,
            anew.position,
            reason.removesuffix(f"; {WHAT_TO_DO}"),
            trimmed,
            len(anew.ids),
            len(anew.refused),
        )

    def _check_stopped(self) -> None:
        """Raise OperatorError while the build's group has members: workers would not notice."""
        if hosts := hosts_of_members(self._kafka, self._build):
            raise OperatorError(
                f"workers of group {self._group} run, or were killed less than ten seconds ago (on "
                f"{', '.join(sorted(set(hosts)))}): stop all of them (`tally up --workers 0` runs "
                "the servers alone), then run this again"
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
