"""One membership in the group of deciders.

    read a batch ▶ decide it, in log order ▶ changelog, confirmed ▶ values, lag ▶ commit, lazily

A decision is in the changelog before anybody can hear of it. After a rebalance nothing in memory is
trusted: states are read from the changelog again. Somebody who was replaced and does not know it
decides what the log says, like its successor, and writes under a number of its own.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from typing import TYPE_CHECKING

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from pipeline import topics
from pipeline.errors import TallyError, TryAgainError
from pipeline.fenced_commits import commit_in, generation_of
from pipeline.metrics.definitions import worker as metric
from pipeline.strict.owned import Outcome
from pipeline.strict.taking import check_not_deleted, take
from pipeline.strict.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer, ConsumerRecord

    from pipeline.changelog import ChangelogRecord
    from pipeline.changelog_writer import ChangelogWriter
    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter
    from pipeline.partition_reader import PartitionReader
    from pipeline.strict.owned import OwnedPartition
    from pipeline.strict.values import ValueFlusher

log = logging.getLogger(__name__)

BATCH_MAX = 1_000
"""Commands decided before the changelog is written. No more than ids that a counter remembers at
least, so that every answer of a batch is in its counter's record."""

POLL_MS = 200
COMMIT_INTERVAL_S = 1.0

LAST_FLUSH_S_MAX = 3.0
"""How long others wait for the partitions of a decider that ends, while it flushes."""

_WRITER_BYTES = 8
_POSITION_S_MAX = 0.01


class Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types for it
    """Remembers that what is assigned has changed."""

    def __init__(self) -> None:
        self.changed = True

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - aiokafka's signature
        self.changed = True

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - aiokafka's signature
        self.changed = True


class Session:
    """One membership in the group."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        writer: ChangelogWriter,
        reader: PartitionReader,
        partitions: int,
        *,
        values: ValueFlusher,
        clock: Clock,
        meter: Meter,
    ) -> None:
        self._consumer = consumer
        self._writer = writer
        self._reader = reader
        self._partitions = partitions
        self._values = values
        self._clock = clock
        self._meter = meter
        self._owned: dict[int, OwnedPartition] = {}
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._tombstones: dict[int, list[ChangelogRecord]] = {}
        self._generation = -1

    async def run(self, rebalances: Rebalances, stopped: asyncio.Event) -> None:
        """Decide until it is stopped; then what was decided is flushed, if ClickHouse takes it.

        Raises TallyError, KafkaError, BrokenProducerError.
        """
        committed_s = self._clock.monotonic_s()
        while not stopped.is_set():
            if rebalances.changed:
                rebalances.changed = False
                await self._take_over()
                self._meter.set(metric.STRICT_PARTITIONS(), len(self._owned))
            fetched = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH_MAX)
            if rebalances.changed:
                continue
            if fetched:
                await self._check_unbroken(fetched)
                await self._decide(fetched)
            await self._move_on()
            self._meter.set(metric.STRICT_LAG(), self._lag())
            if self._clock.monotonic_s() - committed_s >= COMMIT_INTERVAL_S:
                committed_s = self._clock.monotonic_s()
                await self._commit(rebalances)
        await self._commit(rebalances)
        await self._flush_last()

    async def _flush_last(self) -> None:
        """Here, while the partitions are still this decider's: nobody may come after it."""
        try:
            async with asyncio.timeout(LAST_FLUSH_S_MAX):
                await self._values.flush()
        except (TallyError, TimeoutError) as error:
            log.warning("the last strict values can be read when a worker is back: %s", error)

    async def _take_over(self) -> None:
        """Read the states of what is assigned now; what was in memory is forgotten."""
        self._owned, self._next, self._committed, self._tombstones = {}, {}, {}, {}
        self._generation = generation_of(self._consumer)
        assigned = sorted(self._consumer.assignment())
        writer = secrets.token_bytes(_WRITER_BYTES)
        for tp in assigned:
            committed = await self._consumer.committed(tp)
            taken = await take(self._reader, tp.partition, self._partitions, committed, writer)
            try:
                self._consumer.seek(tp, taken.position)
            except IllegalStateError:  # Another rebalance took it away; it is told of that, too.
                continue
            self._owned[tp.partition] = taken.owned
            self._next[tp.partition] = taken.position
            self._committed[tp.partition] = -1 if committed is None else committed
        self._values.own(self._owned)
        for partition, owned in self._owned.items():
            self._values.add(
                Value(counter, partition, *summary) for counter, summary in owned.summaries()
            )
        log.info("strict counters: deciding %d partitions", len(self._owned))

    async def _check_unbroken(
        self, fetched: Mapping[TopicPartition, Sequence[ConsumerRecord]]
    ) -> None:
        """Raise ShardRefusedError if commands were deleted that were next: the consumer passes them
        over in silence. Offsets that are missing otherwise are those of transactions."""
        for tp, records in fetched.items():
            following = self._next.get(tp.partition)
            if following is not None and records[0].offset > following:
                start, _ = await self._reader.ends(topics.STRICT, tp.partition)
                check_not_deleted(tp.partition, following, start)

    async def _move_on(self) -> None:
        """Past what ends a partition and is no command: ends of transactions, aborted ones, and all
        but the first offset of a batch that cannot be read. Left undecided, they would be taken for
        commands as soon as they are deleted."""
        for partition, following in self._next.items():
            try:
                # At once, as a rule; not while the consumer looks for its place.
                async with asyncio.timeout(_POSITION_S_MAX):
                    position = await self._consumer.position(
                        TopicPartition(topics.STRICT, partition)
                    )
            except (IllegalStateError, TimeoutError):
                continue  # A rebalance took it away, and will be told; or it is asked again.
            if position > following:
                # A consumer whose place was deleted goes on where the log begins.
                start, _ = await self._reader.ends(topics.STRICT, partition)
                check_not_deleted(partition, following, start)
                self._next[partition] = position

    async def _decide(
        self,
        fetched: Mapping[TopicPartition, Sequence[ConsumerRecord]],
    ) -> None:
        became: Counter[Outcome] = Counter()
        touched = [tp.partition for tp in fetched if tp.partition in self._owned]
        for tp, records in fetched.items():
            owned = self._owned.get(tp.partition)
            if owned is None:
                continue
            bad: list[tuple[int, str]] = []
            for record in records:
                found = owned.take(record.offset, record.timestamp, record.value)
                became[found.outcome] += 1
                if found.outcome is Outcome.UNREADABLE:
                    bad.append((record.offset, found.reason))
            if bad:
                log.warning(
                    "partition %d of %s: %d records are no commands; the first, at offset %d: %s",
                    *(tp.partition, topics.STRICT, len(bad), *bad[0]),
                )
            self._next[tp.partition] = records[-1].offset + 1
        await asyncio.gather(*map(self._write_down, touched))
        now_ms = self._clock.now_ms()
        for outcome, count in became.items():
            self._meter.add(metric.STRICT_COMMANDS(outcome.value), count)
        for records in fetched.values():
            for record in records:
                self._meter.observe(
                    metric.STRICT_DECISION_SECONDS(), max(0, now_ms - record.timestamp) / 1000
                )

    async def _write_down(self, partition: int) -> None:
        """What changed in a partition, to the changelog; returns when that is confirmed."""
        owned = self._owned[partition]
        counters, records = owned.unwritten()
        before = self._tombstones.pop(partition, [])
        if records or before:
            await self._writer.append(partition, [*records, *before])
        if tombstones := owned.confirmed(counters):
            self._tombstones[partition] = tombstones
        self._values.add(
            Value(counter, partition, state.value, state.through, state.log_ms)
            for counter in counters
            if (state := owned.states.get(counter))
        )

    def _lag(self) -> int:
        ends = {
            partition: self._consumer.highwater(TopicPartition(topics.STRICT, partition))
            for partition in self._owned
            if TopicPartition(topics.STRICT, partition) in self._consumer.assignment()
        }
        return sum(max(0, (end or 0) - self._next[number]) for number, end in ends.items())

    async def _commit(self, rebalances: Rebalances) -> None:
        """In the generation that the partitions were taken over in.

        A commit that is refused is another rebalance's beginning, and is not missed.
        """
        if rebalances.changed:
            return
        moved = {
            TopicPartition(topics.STRICT, partition): offset
            for partition, offset in self._next.items()
            if self._committed[partition] != offset
        }
        if not moved:
            return
        try:
            is_committed = await commit_in(self._consumer, moved, self._generation)
        except (TryAgainError, KafkaError) as error:
            log.info("an offset of strict counters is not committed yet: %s", error)
            return
        if is_committed:
            self._committed.update({tp.partition: offset for tp, offset in moved.items()})
