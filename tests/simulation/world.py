"""The servers of the simulated world; operations on them may fail, get lost or come late."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from pipeline.cells import CellKey
from pipeline.changelog import ChangelogRecord
from pipeline.checkpoint import Freshness, Position
from pipeline.dead_letters import DeadLetter
from pipeline.errors import OperatorError
from pipeline.fetches import Fetch
from pipeline.lanes import KIND_HEADER
from pipeline.recovery import RecoveredShard
from pipeline.rules import RULES_KIND, CountingRules, FamilyRules, TrendRules, parse_rules
from pipeline.shard import Fetched, Row, Shard, ShardSnapshot
from schemas.records import Records
from tests.simulation.truth import (
    REGISTER_BITS,
    SKETCH_KEYS,
    CellPlace,
    FamilyTruth,
    RecordTruth,
    Register,
    RulesTruth,
    SketchPlace,
)

T = TypeVar("T")
LOOK_AHEAD_RECORDS = 2
"""How many records one fetch brings to whoever looks for rules."""
CellsOfPartition = dict[tuple[str, int, int], tuple[int, int, int]]
"""(cell key, slot, incarnation) -> (p, n, duplicates)"""


class Operation(Generic[T]):
    """Something a worker awaits. The scheduler decides when its effect happens, and if it is told.

    `atoms` are the parts of the effect that can be torn apart by a death in between.
    """

    __slots__ = ("atoms", "name", "result")

    def __init__(
        self, name: str, atoms: Sequence[Callable[[], Any]], result: Callable[[], T]
    ) -> None:
        self.name = name
        self.atoms = atoms
        self.result = result

    def __await__(self) -> Generator[Operation[T], T, T]:
        return (yield self)

    def take_effect(self) -> T:
        for atom in self.atoms:
            atom()
        return self.result()


def nothing() -> None:
    """The result of a write."""


def asking(name: str, answer: Callable[[], T]) -> Operation[T]:
    return Operation(name, (), answer)


def writing(name: str, *atoms: Callable[[], Any]) -> Operation[None]:
    return Operation(name, atoms, nothing)


@dataclass
class Log:
    """The increments: records by partition, in the form of the truth. Retention trims them."""

    partitions: list[list[RecordTruth]]
    starts: dict[int, int] = field(default_factory=dict)

    def rows(self, partition: int, start: int, end: int) -> list[Row]:
        return [
            Row(offset, row, e.counter, e.region, e.at_ms, e.delta, e.id, e.member)
            for offset, record in enumerate(self.partitions[partition][start:end], start)
            for row, e in enumerate(record.events)
        ]

    def fetched(self, partition: int, start: int, end: int) -> Fetched:
        """What a fetch says beside its rows."""
        records = list(enumerate(self.partitions[partition][start:end], start))
        return Fetched(
            np.array([offset for offset, _ in records], np.int64),
            np.array([record.timestamp_ms for _, record in records], np.int64),
            end,
            [(offset, as_rules(record.rules)) for offset, record in records if record.rules],
            [(offset, 0) for offset, record in records if record.is_bad],
            {offset: record.retries for offset, record in records if record.retries},
        )

    def fetch(self, partition: int, start: int, end: int) -> Fetch | None:
        """What a fetch has of rules; None at the log's end."""
        records = self.partitions[partition][start:end]
        if not records:
            return None
        size = len(records)
        rules_header = ((KIND_HEADER, RULES_KIND.encode()),)
        return Fetch(
            start,
            start + size,
            Records(
                partition,
                np.arange(start, start + size),
                np.array([record.timestamp_ms for record in records], np.int64),
                [None] * size,
                [as_rules(record.rules).bytes if record.rules else b"" for record in records],
                [rules_header if record.rules else () for record in records],
            ),
        )


def as_truth(rules: CountingRules) -> RulesTruth:
    def family(f: FamilyRules) -> FamilyTruth:
        return FamilyTruth(
            f.lateness_ms,
            f.regions,
            f.ids_horizon_ms,
            f.cells_max,
            f.sketched,
            f.once_per_member,
            f.once_per_error > 0,
        )

    families = {name: family(f) for name, f in rules.families.items()}
    return RulesTruth(rules.version, family(rules.default), families, rules.ids_limit)


@lru_cache(maxsize=64)
def as_rules(rules: RulesTruth) -> CountingRules:
    def family(f: FamilyTruth) -> FamilyRules:
        return FamilyRules(
            f.lateness_ms,
            f.regions,
            f.horizon_ms,
            f.cells_max,
            REGISTER_BITS,
            ("1h",),
            f.sketched,
            0.5,
            SKETCH_KEYS,
            TrendRules(enabled=False),
            once_per_member=f.once,
            once_per_error=0.000001 if f.in_filter else 0,
        )

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
    registers: dict[Register, int] = field(default_factory=dict)
    buckets: dict[tuple[SketchPlace, int], tuple[int, int]] = field(default_factory=dict)
    heaviest: dict[SketchPlace, tuple[int, list[tuple[str, int]]]] = field(default_factory=dict)
    flushed_through: dict[int, int] = field(default_factory=dict)
    ledger: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)

    def merge_ledger(self, snapshot: ShardSnapshot) -> None:
        """Everything by max but the offset that a slot begins at, which is the last but one."""
        stored = self.ledger.setdefault(snapshot.shard.partition, {})
        for slot_ms, *numbers in snapshot.ledger:
            old = stored.get(slot_ms, tuple(numbers))
            first = min(old[-2], numbers[-2])
            greatest = [max(pair) for pair in zip(old, numbers, strict=True)]
            stored[slot_ms] = (*greatest[:-2], first, greatest[-1])

    def merge(self, snapshot: ShardSnapshot) -> None:
        stored = self.cells.setdefault(snapshot.shard.partition, {})
        for part in snapshot.flush:
            v, slot_ms, incarnation = part.values, part.cells.slot_ms, snapshot.incarnation
            columns = zip(v.keys, v.p.tolist(), v.n.tolist(), v.duplicates.tolist(), strict=True)
            for key, p, n, duplicates in columns:
                place = (key, slot_ms, incarnation)
                old = stored.get(place, (0, 0, 0))
                stored[place] = (max(old[0], p), max(old[1], n), max(old[2], duplicates))

    def merge_summaries(self, snapshot: ShardSnapshot) -> None:
        """Registers and buckets by max; of the heaviest, those that counted further."""
        self.merge_ledger(snapshot)
        for raised in snapshot.distinct.raised:
            whose = np.repeat(np.arange(len(raised.of)), np.diff(raised.starts)).tolist()
            ranks = zip(whose, raised.indexes.tolist(), raised.ranks.tolist(), strict=True)
            for i, index, rank in ranks:
                register = (*raised.of[i][:3], index)
                self.registers[register] = max(self.registers.get(register, 0), rank)
        number = snapshot.shard.partition
        for part in snapshot.sketches:
            for grown in part.buckets:
                group, region, window_ms = grown.of
                place = (number, group, region, window_ms or 0, part.sketches.slot_ms)
                columns = (grown.buckets.tolist(), grown.p.tolist(), grown.n.tolist())
                for bucket, p, n in zip(*columns, strict=True):
                    old = self.buckets.get((place, bucket), (0, 0))
                    self.buckets[place, bucket] = (max(old[0], p), max(old[1], n))
            for found in part.heaviest:
                place = (number, found.of.group, found.of.region, 0, part.sketches.slot_ms)
                if found.through >= self.heaviest.get(place, (-1, []))[0]:
                    counts = list(zip(found.counters, found.counts, strict=True))
                    self.heaviest[place] = (found.through, counts)

    def counts(self, partition: int) -> dict[CellPlace, tuple[int, int, int]]:
        """What people read, by place."""
        return {
            (partition, *CellKey.parse(key), slot_ms): values
            for (key, slot_ms, _), values in self.cells.get(partition, {}).items()
        }


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
    """All servers together, and what workers did that nobody may do unseen.

    `refusals` are why workers stopped for an operator, which none ever has a reason for here;
    `misplaced` are the places of rows that any worker refused, by partition.
    """

    log: Log
    changelog: ChangelogTopic = field(default_factory=ChangelogTopic)
    clickhouse: ClickHouse = field(default_factory=ClickHouse)
    group: Group = field(default_factory=Group)
    now_ms: int = 0
    refusals: list[str] = field(default_factory=list)
    misplaced: dict[int, set[tuple[int, int, int]]] = field(default_factory=dict)


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

    async def write_cells(self, snapshots: Sequence[ShardSnapshot]) -> list[DeadLetter]:
        # One insert is one block and lands whole; but ClickHouse may split it by partition, that is
        # by day, so the shards' parts may land one by one.
        merge = self._world.clickhouse.merge
        await writing("write cells", *(lambda s=s: merge(s) for s in snapshots))
        return []

    async def write_summaries(self, snapshots: Sequence[ShardSnapshot]) -> list[DeadLetter]:
        merge = self._world.clickhouse.merge_summaries
        await writing("write summaries", *(lambda s=s: merge(s) for s in snapshots))
        return []

    async def write_positions(self, positions: Sequence[Position]) -> None:
        stored = self._world.clickhouse.flushed_through

        def store() -> None:
            for row in positions:
                stored[row.shard] = max(stored.get(row.shard, -1), row.flushed_through)

        await writing("write positions", store)

    async def write_freshness(self, samples: Sequence[Freshness]) -> None:
        """Telemetry does not count."""

    async def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """For people to look at; it does not count."""

    async def append(self, partition: int, records: Iterable[ChangelogRecord]) -> None:
        listed = list(records)
        if not listed:
            return
        append, size = self._world.changelog.append, self._batch_records
        batches = [listed[i : i + size] for i in range(0, len(listed), size)]
        await writing("append", *(lambda b=b: append(partition, b) for b in batches))

    async def append_each(self, parts: Iterable[tuple[int, Iterable[ChangelogRecord]]]) -> None:
        for partition, records in parts:
            await self.append(partition, records)

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

    async def read_ahead(self, partition: int, offset: int) -> Fetch | None:
        log = self._world.log
        end = offset + LOOK_AHEAD_RECORDS
        found: Fetch | None = await asking("read ahead", lambda: log.fetch(partition, offset, end))
        return found

    async def planned_rules(self) -> CountingRules | None:
        """The newest of any partition: appliers write the plan before the first of them."""
        partitions = self._world.log.partitions

        def newest() -> RulesTruth | None:
            found = [record.rules for log in partitions for record in log if record.rules]
            return max(found, key=lambda rules: rules.version, default=None)

        rules: RulesTruth | None = await asking("plan", newest)
        return as_rules(rules) if rules else None

    async def append_control_to(
        self,
        topic: str,  # noqa: ARG002 - there is one
        partition: int,
        kind: str,
        value: bytes,
    ) -> None:
        assert kind == RULES_KIND
        world, rules = self._world, as_truth(parse_rules(value))

        def store() -> None:
            world.log.partitions[partition].append(RecordTruth(world.now_ms, rules=rules))

        await writing("append rules", store)

    async def check(self, shard: Shard) -> None:
        if shard.position > len(self._world.log.partitions[shard.partition]):
            raise OperatorError("the log is shorter than what was counted")
