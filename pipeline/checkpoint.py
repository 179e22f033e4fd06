"""Flush and checkpoint: how counts leave the worker, and how a restart knows where to go on.

A flush makes what was counted visible in ClickHouse. A checkpoint also makes it safe to forget:
each of its steps is taken only after the one before is confirmed, so that a crash between any two
leaves a state from which the same cells are computed again.

    1  snapshot dirty cells and positions, with no await in between
    2  write cells, registers and sketches to ClickHouse, then the position rows
    3  write dead letters
    4  write cells, ids, members and the position record to the changelog
    5  commit the positions

What the commit made unneeded is then let go: closed slots, old ids, old positions.

No event loop of its own: it awaits what it is given, so the simulation runs it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from pipeline.changelog import (
    cell_keys,
    checkpoint_records,
    filter_records,
    forgotten_keys,
    member_records,
    position_key,
    position_record,
    sketch_records,
    tombstones,
)
from pipeline.faults import reach
from pipeline.once.members import MemberKeys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipeline.changelog import ChangelogRecord, SketchPlace
    from pipeline.clock import Clock
    from pipeline.dead_letters import DeadLetter
    from pipeline.recovery import RecoveredShard
    from pipeline.shard import Shard, ShardSnapshot
    from pipeline.sketched import SlotSketches


@dataclass(frozen=True, slots=True)
class Position:
    """How far a shard is, at a moment when everything up to there was confirmed."""

    shard: int
    incarnation: int
    flushed_through: int
    log_ms: int
    flushed_at_ms: int
    checkpoint_through: int
    checkpointed_at_ms: int
    rules_version: int


FRESHNESS_MS_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Freshness:
    """How long a heartbeat took from the log into ClickHouse."""

    shard: int
    at_ms: int
    freshness_ms: int


class Sink(Protocol):
    """Where counts are read. Its methods return when it has confirmed.

    They raise TryAgainError when it is away, OperatorError when it refuses.
    """

    async def write_cells(self, snapshots: Sequence[ShardSnapshot]) -> Sequence[DeadLetter]:
        """Store what the snapshots hold to flush, or raise; return the cells it will never take."""
        ...

    async def write_summaries(self, snapshots: Sequence[ShardSnapshot]) -> Sequence[DeadLetter]:
        """Store what is kept beside cells, or raise; return what it will never take."""
        ...

    async def write_positions(self, positions: Sequence[Position]) -> None:
        """Store how far shards are; called after their cells are confirmed."""
        ...

    async def write_freshness(self, samples: Sequence[Freshness]) -> None:
        """Store how long heartbeats took."""
        ...

    async def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Store what of dead letters people look at; called after their topic has them."""
        ...


class Changelog(Protocol):
    """Appends and returns when all is confirmed; raises TryAgainError when that is unknown."""

    async def append(self, partition: int, records: Iterable[ChangelogRecord]) -> None: ...

    async def append_each(self, parts: Iterable[tuple[int, Iterable[ChangelogRecord]]]) -> None:
        """Append to several partitions, which need not wait for each other."""
        ...

    async def append_dead_letters(self, letters: Iterable[DeadLetter]) -> None: ...


class Commit(Protocol):
    """Commits next offsets by partition for the given generation of the group.

    Returns False when the group has moved on, so that nothing was committed.
    """

    async def __call__(self, positions: Mapping[int, int], generation: int) -> bool: ...


@dataclass(slots=True)
class SketchKeys:
    """Under which keys the changelog has a sketch: only those of its newest state are needed."""

    newest: set[bytes] = field(default_factory=set)
    older: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class OwnedShard:
    """A shard with what its owner has confirmed of it.

    `epoch` is that of the leader that took the last batch that was counted since the take-over;
    `is_unmarked` whether there was none that the log could be known by at the take-over.
    """

    shard: Shard
    committed: int
    writer: int
    flushed: int = -1
    epoch: int | None = None
    checkpointed_at_ms: int = 0
    dead_letters: list[DeadLetter] = field(default_factory=list)
    # The log times of heartbeats that are not flushed yet.
    heartbeats_ms: list[int] = field(default_factory=list)
    # Changelog keys that the next commit makes unneeded: of others, of what was forgotten before,
    # of the last position.
    unneeded: list[bytes] = field(default_factory=list)
    # Changelog keys of each sketch, as it is now and as earlier checkpoints wrote it.
    sketch_keys: dict[SketchPlace, SketchKeys] = field(default_factory=dict)
    # Changelog keys of what was written last of members, and of what was written before and
    # perhaps not committed; how many segments there were.
    member_keys: MemberKeys | None = None
    older_member_keys: set[bytes] = field(default_factory=set)
    segments: int = 0
    is_unmarked: bool = field(init=False)

    def __post_init__(self) -> None:
        """The shard is as it was recovered: it may count before anybody asks."""
        self.is_unmarked = self.shard.last_batch is None

    def sketch_records(self, snapshot: ShardSnapshot) -> Iterator[ChangelogRecord]:
        """What a checkpoint writes of sketches, taking note of it."""
        for part in snapshot.sketch_values:
            for place, records in sketch_records(part, snapshot.incarnation, self.writer):
                known = self.sketch_keys.setdefault(place, SketchKeys())
                # A checkpoint that failed may have written the same state under the same keys.
                known.older = (known.older | known.newest) - dict(records).keys()
                known.newest = set(dict(records))
                yield from records

    def member_records(self, snapshot: ShardSnapshot) -> Sequence[ChangelogRecord]:
        """What a checkpoint writes of members, taking note of it."""
        if self.member_keys is not None:
            self.older_member_keys.update(self.member_keys.all())
            self.member_keys = None
        if (members := snapshot.members) is None:
            return []
        self.segments += 1
        facts = member_records(members, snapshot.incarnation, self.writer, self.segments)
        filters = {
            one.name: filter_records(one, snapshot.incarnation, self.writer)
            for one in members.filters
        }
        self.member_keys = MemberKeys(
            list(dict(facts)), {name: list(dict(records)) for name, records in filters.items()}
        )
        return [*facts, *chain.from_iterable(filters.values())]

    def unneeded_member_keys(self, snapshot: ShardSnapshot) -> list[bytes]:
        """After a commit: the keys of segments that the one of the snapshot has replaced."""
        if snapshot.members is None or self.member_keys is None:
            return []
        # What failed before may have written filters under keys that are needed now.
        keys = [*(self.older_member_keys - set(self.member_keys.all()))]
        keys += self.shard.members.confirm(snapshot.members, self.member_keys)
        self.older_member_keys, self.member_keys = set(), None
        return sorted(keys)

    def unneeded_sketch_keys(self, closed: Sequence[SlotSketches]) -> Iterator[bytes]:
        """After a commit: the keys of what sketches were before, and of those that are closed."""
        for sketches in closed:
            for of in sketches.states():
                known = self.sketch_keys.pop((sketches.slot_ms, of), SketchKeys())
                yield from known.older | known.newest
        for known in self.sketch_keys.values():
            yield from known.older
            known.older = set()


@dataclass(frozen=True, slots=True)
class _Moment:
    """What step 1 takes: everything the other steps write."""

    owned: OwnedShard
    snapshot: ShardSnapshot
    dead_letters: list[DeadLetter]
    heartbeats_ms: list[int]

    def add_letters(self, letters: list[DeadLetter]) -> None:
        """Cells that were refused: written with the letters of this moment, before newer ones."""
        end = len(self.dead_letters)
        self.owned.dead_letters[end:end] = letters
        self.dead_letters.extend(letters)


class Checkpointer:
    """Flushes and checkpoints the shards of one worker. Its caller calls one method at a time.

    Methods raise TryAgainError when a server is away, and OperatorError when one refuses; what was
    not confirmed stays dirty, so calling again later loses nothing. `flushed_s` is the monotonic
    time at which the sink had confirmed all of the last flush.
    """

    def __init__(self, sink: Sink, changelog: Changelog, commit: Commit, clock: Clock) -> None:
        self.owned: dict[int, OwnedShard] = {}
        self.generation = -1
        self._sink = sink
        self._changelog = changelog
        self._commit = commit
        self._clock = clock
        self.flushed_s = clock.monotonic_s()

    async def begin(self, shard: Shard, writer: int, generation: int) -> bool:
        """Commit where a partition's counting begins, so that its offset is never unknown later."""
        record = position_record(shard.snapshot(checkpoint=False), writer)
        await self._changelog.append(shard.partition, [record])
        return await self.commit(shard, generation)

    async def commit(self, shard: Shard, generation: int) -> bool:
        """Commit a position that the changelog has already."""
        return await self._commit({shard.partition: shard.position}, generation)

    def own(self, shards: Sequence[tuple[Shard, RecoveredShard]], generation: int) -> None:
        """Take over shards, all committed at their position, in place of those owned before."""
        self.generation = generation
        self.owned = {
            shard.partition: OwnedShard(
                shard,
                committed=shard.position,
                writer=(writer := recovered.writer(generation)),
                unneeded=[
                    *recovered.unneeded(writer, shard.position),
                    position_key(shard.position, writer),  # There if the shard began here.
                ],
            )
            for shard, recovered in shards
        }

    def disown(self) -> None:
        """The group is rebalancing: what was not committed will be counted by the next owner."""
        self.owned = {}
        self.generation = -1

    def unwritten_letters(self) -> tuple[int, int]:
        """How many dead letters wait for the next checkpoint, and their bytes."""
        letters = [letter for owned in self.owned.values() for letter in owned.dead_letters]
        return len(letters), sum(len(letter.value) for letter in letters)

    async def flush(self) -> None:
        """Make what was counted visible. Takes as long as the sink needs."""
        await self._flush([m for m in self._snapshot() if m.snapshot.position > m.owned.flushed])

    async def checkpoint(self) -> None:
        """Flush, and make it safe to forget. Takes as long as the servers need."""
        generation = self.generation
        moments = self._snapshot(checkpoint=True)  # 1
        await self._flush(moments)  # 2
        reach("checkpoint-flushed", sum(m.snapshot.uncheckpointed for m in moments))
        if self.generation != generation:
            return
        letters = list(chain.from_iterable(moment.dead_letters for moment in moments))
        await self._changelog.append_dead_letters(letters)  # 3
        await self._sink.write_dead_letters(letters)
        reach("checkpoint-dead-letters", sum(m.snapshot.uncheckpointed for m in moments))
        moved = [m for m in moments if m.snapshot.position > m.owned.committed]
        await self._changelog.append_each(_changes(moved))  # 4
        positions = {m.owned.shard.partition: m.snapshot.position for m in moved}
        if positions and not await self._commit(positions, generation):  # 5
            return
        reach("checkpoint-committed", sum(m.snapshot.uncheckpointed for m in moments))
        await self._let_go(moments)

    def _snapshot(self, *, checkpoint: bool = False) -> list[_Moment]:
        return [
            _Moment(
                owned,
                owned.shard.snapshot(checkpoint=checkpoint),
                list(owned.dead_letters),
                list(owned.heartbeats_ms),
            )
            for owned in self.owned.values()
        ]

    async def _flush(self, moments: list[_Moment]) -> None:
        if moments:
            await self._write(moments)
        self.flushed_s = self._clock.monotonic_s()

    async def _write(self, moments: list[_Moment]) -> None:
        snapshots = [moment.snapshot for moment in moments]
        unflushed = sum(snapshot.unflushed for snapshot in snapshots)
        reach("flush-cells", unflushed)
        set_aside = [
            *await self._sink.write_cells(snapshots),
            *await self._sink.write_summaries(snapshots),
        ]
        reach("flush-positions", unflushed)
        for moment in moments:
            partition = moment.owned.shard.partition
            moment.add_letters([letter for letter in set_aside if letter.partition == partition])
        for snapshot in snapshots:
            snapshot.confirm("flush")
        now_ms = self._clock.now_ms()
        await self._sink.write_positions(
            [
                Position(
                    shard=moment.owned.shard.partition,
                    incarnation=moment.snapshot.incarnation,
                    flushed_through=moment.snapshot.position - 1,
                    log_ms=moment.snapshot.log_ms,
                    flushed_at_ms=now_ms,
                    checkpoint_through=moment.owned.committed - 1,
                    checkpointed_at_ms=moment.owned.checkpointed_at_ms,
                    rules_version=moment.snapshot.rules.version,
                )
                for moment in moments
            ]
        )
        now_ms = self._clock.now_ms()
        samples = [
            Freshness(moment.owned.shard.partition, now_ms, _age_ms(sent_ms, now_ms))
            for moment in moments
            for sent_ms in moment.heartbeats_ms
        ]
        for moment in moments:
            moment.owned.flushed = moment.snapshot.position
            del moment.owned.heartbeats_ms[: len(moment.heartbeats_ms)]
        await self._sink.write_freshness(samples)

    async def _let_go(self, moments: Sequence[_Moment]) -> None:
        """Forget what the commit made unneeded. A lost tombstone costs space, never a count."""
        unneeded = {moment.owned.shard.partition: self._unneeded(moment) for moment in moments}
        await self._changelog.append_each(
            (partition, tombstones(keys)) for partition, keys in unneeded.items() if keys
        )

    def _unneeded(self, moment: _Moment) -> list[bytes]:
        """The keys that the commit made unneeded, after its shard has let go of the rest."""
        owned, snapshot = moment.owned, moment.snapshot
        owned.checkpointed_at_ms = self._clock.now_ms()
        del owned.dead_letters[: len(moment.dead_letters)]
        if snapshot.position == owned.committed:
            return []
        written = {
            one.slot_ms: one.checkpointed_keys() for one in owned.shard.over(snapshot.log_ms)
        }
        snapshot.confirm("checkpoint")
        owned.committed = snapshot.position
        closed, closed_sketches = owned.shard.close_slots(snapshot.log_ms)
        keys = [
            *owned.unneeded,
            *forgotten_keys(snapshot),
            *owned.unneeded_sketch_keys(closed_sketches),
            *owned.unneeded_member_keys(snapshot),
            *chain.from_iterable(
                cell_keys(cells, written[cells.slot_ms], snapshot.incarnation, owned.writer)
                for cells in closed
            ),
        ]
        owned.unneeded = [position_key(snapshot.position, owned.writer)]
        return keys


def _changes(moments: Iterable[_Moment]) -> Iterator[tuple[int, Iterable[ChangelogRecord]]]:
    """What a checkpoint writes to each partition of the changelog."""
    for moment in moments:
        sketches = moment.owned.sketch_records(moment.snapshot)
        members = moment.owned.member_records(moment.snapshot)
        records = checkpoint_records(moment.snapshot, moment.owned.writer, sketches, members)
        yield moment.owned.shard.partition, records
        reach("checkpoint-changelog", moment.snapshot.uncheckpointed)


def _age_ms(sent_ms: int, now_ms: int) -> int:
    """How long ago that was; clocks may differ, and a log may be older than a column can hold."""
    return min(max(0, now_ms - sent_ms), FRESHNESS_MS_MAX)
