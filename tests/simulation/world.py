"""The servers of the simulated world; operations on them may fail, get lost or come late."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from pipeline.cells import CellKey
from pipeline.changelog import ChangelogRecord, RecoveredShard
from pipeline.checkpoint import Position
from pipeline.dead_letters import DeadLetter
from pipeline.errors import OperatorError
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import Row, Shard, ShardSnapshot
from schemas.records import Records
from tests.simulation.truth import FamilyTruth, RecordTruth, RulesTruth

T = TypeVar("T")
CellsOfPartition = dict[tuple[str, str, int, int, int], tuple[int, int, int]]
"""(counter, region, window, slot, incarnation) -> (p, n, through)"""


@dataclass
class Operation(Generic[T]):
    """Something a worker awaits. The scheduler decides when its effect happens, and if it is told.

    `atoms` are the parts of the effect that can be torn apart by a death in between.
    """

    name: str
    atoms: list[Callable[[], Any]]
    result: Callable[[], T]

    def __await__(self) -> Generator[Operation[T], T, T]:
        return (yield self)

    def take_effect(self) -> T:
        for atom in self.atoms:
            atom()
        return self.result()


def nothing() -> None:
    """The result of a write."""


def asking(name: str, answer: Callable[[], T]) -> Operation[T]:
    return Operation(name, [], answer)


def writing(name: str, *atoms: Callable[[], Any]) -> Operation[None]:
    return Operation(name, list(atoms), nothing)


@dataclass
class Log:
    """The increments: records by partition, in the form of the truth. Retention trims them."""

    partitions: list[list[RecordTruth]]
    starts: dict[int, int] = field(default_factory=dict)

    def rows(self, partition: int, start: int, end: int) -> list[Row]:
        return [
            Row(offset, row, e.counter, e.region, e.at_ms, e.delta, e.id)
            for offset, record in enumerate(self.partitions[partition][start:end], start)
            for row, e in enumerate(record.events)
        ]

    def times(self, partition: int, start: int, end: int) -> list[tuple[int, int]]:
        records = self.partitions[partition][start:end]
        return [(offset, record.timestamp_ms) for offset, record in enumerate(records, start)]

    def rules(self, partition: int, start: int, end: int) -> list[tuple[int, CountingRules]]:
        records = self.partitions[partition][start:end]
        return [
            (offset, as_rules(record.rules))
            for offset, record in enumerate(records, start)
            if record.rules is not None
        ]


def as_rules(rules: RulesTruth) -> CountingRules:
    def family(f: FamilyTruth) -> FamilyRules:
        return FamilyRules(f.lateness_ms, f.regions, f.horizon_ms)

    families = {name: family(f) for name, f in rules.families.items()}
    return CountingRules(rules.version, family(rules.default), families, rules.ids_limit)


@dataclass
class ChangelogTopic:
    """A compacted topic: offsets stay, overwritten records may go at any time."""

    partitions: dict[int, list[tuple[int, bytes, bytes | None]]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def append(self, partition: int, records: Sequence[ChangelogRecord]) -> None:
        offset = self.ends.get(partition, 0)
        stored = self.partitions.setdefault(partition, [])
        stored.extend((offset + i, key, value) for i, (key, value) in enumerate(records))
        self.ends[partition] = offset + len(records)

    def read(self, partition: int, start: int, end: int) -> Records:
        found = [r for r in self.partitions.get(partition, []) if start <= r[0] < end]
        size = len(found)
        offsets = np.array([offset for offset, _, _ in found], np.int64)
        keys: list[bytes | None] = [key for _, key, _ in found]
        values = [value for _, _, value in found]
        return Records(partition, offsets, np.zeros(size, np.int64), keys, values, [()] * size)

    def compact(self, partition: int, *, drop_tombstones: bool) -> None:
        """Keep the last record of each key, as Kafka may at any moment."""
        stored = self.partitions.get(partition, [])
        last = {key: offset for offset, key, _ in stored}
        self.partitions[partition] = [
            record
            for record in stored
            if last[record[1]] == record[0] and not (drop_tombstones and record[2] is None)
        ]


@dataclass
class ClickHouse:
    """Cells that merge by max, and positions."""

    cells: dict[int, CellsOfPartition] = field(default_factory=dict)
    flushed_through: dict[int, int] = field(default_factory=dict)

    def merge(self, snapshot: ShardSnapshot) -> None:
        stored = self.cells.setdefault(snapshot.shard.partition, {})
        for part in snapshot.flush:
            v = part.values
            columns = zip(v.keys, v.p.tolist(), v.n.tolist(), v.through.tolist(), strict=True)
            for text, p, n, through in columns:
                key = CellKey.parse(text)
                place = (*key, part.cells.slot_ms, snapshot.incarnation)
                old = stored.get(place, (0, 0, -1))
                stored[place] = (max(old[0], p), max(old[1], n), max(old[2], through))


@dataclass
class Group:
    """The consumer group: who owns what in which generation, and the committed offsets."""

    generation: int = 0
    owners: dict[int, int] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    preparing: bool = False
    before: dict[int, int] = field(default_factory=dict)

    def commit(self, positions: Mapping[int, int], generation: int) -> bool:
        if generation != self.generation:
            return False
        self.before.update({p: self.committed[p] for p in positions if p in self.committed})
        self.committed.update(positions)
        return True


@dataclass
class World:
    """All servers together."""

    log: Log
    changelog: ChangelogTopic = field(default_factory=ChangelogTopic)
    clickhouse: ClickHouse = field(default_factory=ClickHouse)
    group: Group = field(default_factory=Group)
    now_ms: int = 0


class Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0


class Doors:
    """The world as one worker reaches it: a Sink, a Changelog, Offsets and readers in one."""

    def __init__(self, world: World, batch_records: int) -> None:
        self._world = world
        self._batch_records = batch_records

    async def write_cells(self, snapshots: Sequence[ShardSnapshot]) -> None:
        # One insert is one block and lands whole; but ClickHouse may split it by partition, that is
        # by day, so the shards' parts may land one by one.
        merge = self._world.clickhouse.merge
        await writing("write cells", *(lambda s=s: merge(s) for s in snapshots))

    async def write_positions(self, positions: Sequence[Position]) -> None:
        stored = self._world.clickhouse.flushed_through

        def store() -> None:
            for row in positions:
                stored[row.shard] = max(stored.get(row.shard, -1), row.flushed_through)

        await writing("write positions", store)

    async def append(self, partition: int, records: Iterable[ChangelogRecord]) -> None:
        listed = list(records)
        if not listed:
            return
        append, size = self._world.changelog.append, self._batch_records
        batches = [listed[i : i + size] for i in range(0, len(listed), size)]
        await writing("append", *(lambda b=b: append(partition, b) for b in batches))

    async def append_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        list(letters)
        await writing("append dead letters")

    async def commit(self, positions: Mapping[int, int], generation: int) -> bool:
        group = self._world.group
        answer: list[bool] = []

        def store() -> None:
            answer.append(group.commit(positions, generation))

        accepted: bool = await Operation("commit", [store], lambda: answer[0])
        return accepted

    async def committed(self, partition: int) -> int | None:
        committed = self._world.group.committed
        offset: int | None = await asking("committed", lambda: committed.get(partition))
        return offset

    async def log_start(self, partition: int) -> int:
        starts = self._world.log.starts
        start: int = await asking("log start", lambda: starts.get(partition, 0))
        return start

    async def read_on(self, recovered: RecoveredShard) -> bool:
        changelog, partition = self._world.changelog, recovered.partition

        def read() -> bool:
            start, end = recovered.next_offset or 0, changelog.ends.get(partition, 0)
            if start >= end:
                return False
            recovered.add(start, end, changelog.read(partition, start, end))
            return True

        found: bool = await asking("read changelog", read)
        return found

    async def check(self, shard: Shard) -> None:
        if shard.position > len(self._world.log.partitions[shard.partition]):
            raise OperatorError("the log is shorter than what was counted")
