"""One schedule: a random log, random faults, then quiet; and what is wrong afterwards."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from unittest.mock import patch

from pipeline import changelog
from pipeline.once import filters, segments, table
from pipeline.shard import Shard
from sketches import bloom
from tests.simulation.dice import Dice
from tests.simulation.truth import (
    SLOT_MS,
    EventTruth,
    FamilyTruth,
    RecordTruth,
    Register,
    RulesTruth,
    count,
)
from tests.simulation.worker import SimWorker
from tests.simulation.world import Log, Operation, World

T0 = 1_760_000_400_000
MINUTE_MS = 60_000
# All that an event or a record can be, the likely more than once: one choice makes one of them.
EVENTS = tuple(
    product(
        ("a:x", "a:x", "a:x", "a:y", "b:x"),
        ("", "", "eu"),
        tuple(minutes * MINUTE_MS for minutes in (0, 0, 0, 0, 0, 0, -1, -3, -16, -70, 4, 6)),
        (1, 1, 2, -1),
        ("i", "j", "k", None, None, None),
    )
)
"""Counter, region, how far `at` is from now, delta, id."""
RECORDS = tuple(product((0, 0, 0, 5_000, SLOT_MS), (0, 1, 1, 1, 3), (0, 50, 1_000)))
"""How far the timestamp is behind now, how many events, how much later the next record is."""
MEMBERS = (None, *(f"member {number}" for number in range(12)))
LIKERS = (None, *(f"member {number}" for number in range(3))) + ("member 0",) * 2
MAX_WORKERS = 3
QUIET_TRIES = 4


@dataclass
class Schedule:
    """A seed's world and story. `problem` is what was found wrong, in one line."""

    seed: int
    steps: int = 0
    problem: str | None = None
    refused: bool = False
    faults: dict[str, int] = field(default_factory=dict)
    make_worker: Callable[[int, World, int], SimWorker] = SimWorker

    def __post_init__(self) -> None:
        self.rng = Dice(self.seed)
        self.steps = self.steps or self.rng.choice((30, 60, 120)) * (3 if self.likes else 1)
        self.world = World(Log([[], []]), now_ms=T0)
        self.workers: list[SimWorker] = []
        self.hired = 0
        self.in_flight: list[Callable[[], object]] = []
        self.rules = RulesTruth()
        self.without_rules: list[list[RecordTruth]] = []
        self.offsets_lost = False
        self.batch_records = self.rng.choice((1, 3, 100))
        self.first_rules()

    @property
    def summarises(self) -> bool:
        """Whether members and what spills are looked at, which takes time and tells little new."""
        return self.seed % 8 == 5

    @property
    def likes(self) -> bool:
        """Whether there are families that count each member once."""
        return self.seed % 4 == 2

    def run(self) -> Schedule:
        """Play the whole story."""
        if self.summarises:
            return self.play()
        with patch.object(Shard, "summarise", _pass_over):
            return self.play_likes() if self.likes else self.play()

    def play_likes(self) -> Schedule:
        """With so few facts in a record, a segment and a table that there are several of each."""
        with (
            patch.object(changelog, "FACTS_AT_ONCE", 2),
            patch.object(changelog, "_PART_BYTES", 100),
            patch.object(bloom, "FIRST_CAPACITY", 64),
            patch.object(filters, "WHOLE_BYTES_MIN", 40),
            patch.object(segments, "SPARE_FACTS", self.rng.choice((1, 100))),
            patch.object(table, "FRESH_MAX", self.rng.choice((0, 100))),
        ):
            return self.play()

    def play(self) -> Schedule:
        self.add_worker()
        self.rebalance()
        actions = [action for action, weight in self.actions() for _ in range(weight)]
        for action in self.rng.choices(actions, k=self.steps):
            action()
        self.quiet_down()
        return self

    def actions(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self.step_worker, 60),
            (self.fetch, 22),
            (self.produce, 16),
            (self.begin_flush, 6),
            (self.begin_checkpoint, 42 if self.likes else 14),
            (self.pass_time, 4),
            (self.kill, 1),
            (self.stop, 1),
            (self.wake, 2),
            (self.add_worker, 1),
            (self.rebalance, 1),
            (self.compact, 3),
            (self.land_in_flight, 2),
            (self.change_rules, 8 if self.seed % 8 == 1 else 1),
            (self.add_partition, 1),
            (self.send_rules, 2),
            (self.trim_log, 2),
            (self.lose_offset, 2 if self.seed % 4 == 0 else 0),
        ]

    # What happens in the world

    def first_rules(self) -> None:
        rng = self.rng
        self.rules = RulesTruth(
            self.rules.version + 2,
            self.family(),
            {"b": self.family()} if rng.random() < 0.5 else {},
            rng.choice((2, 4, 1_000)),
        )
        for records in self.world.log.partitions:
            records.append(RecordTruth(self.world.now_ms, rules=self.rules))

    def family(self) -> FamilyTruth:
        rng = self.rng
        lateness_ms = rng.choice((2, 15, 60)) * MINUTE_MS
        horizon_ms = rng.choice((1, 12)) * MINUTE_MS
        regions, cells_max = rng.random() < 0.7, rng.choice((1, 3, 1_000))
        sketched = self.summarises and rng.random() < 0.3
        once = self.likes and rng.random() < 0.7
        filtered = once and self.seed % 8 == 6 and rng.random() < 0.5
        return FamilyTruth(lateness_ms, regions, horizon_ms, cells_max, sketched, once, filtered)

    def change_rules(self) -> None:
        self.first_rules()
        if self.rng.random() < 0.3:  # Two appliers race: an older version comes after a newer one.
            stale = RulesTruth(self.rules.version - 1, self.family())
            records = self.rng.choice(self.world.log.partitions)
            records.append(RecordTruth(self.world.now_ms, rules=stale))

    def produce(self) -> None:
        rng, world = self.rng, self.world
        records = rng.choice(world.log.partitions)
        for _ in range(1 + rng.below(4)):
            behind_ms, size, later_ms = rng.choice(RECORDS)
            events = [self.event() for _ in range(size)]
            record = RecordTruth(world.now_ms - behind_ms, events)
            record.is_bad = not size
            if rng.random() < 0.15:  # Many retries name what was not refused, or not yet.
                named = max(0, len(records) + rng.choice((-5, -2, -1, 1, 2)))
                happened_ms = records[named].happened_ms if named < len(records) else world.now_ms
                record.retries = (named, 0, happened_ms)
            records.append(record)
            world.now_ms += later_ms

    def event(self) -> EventTruth:
        counter, region, shift_ms, delta, id_ = self.rng.choice(EVENTS)
        member = self.rng.choice(MEMBERS) if self.summarises else None
        if self.likes:
            member, delta = self.rng.choice(LIKERS), self.rng.choice((delta, 1, -1, -1))
            counter, shift_ms = self.rng.choice(((counter, shift_ms), ("a:x", 0), ("a:x", 0)))
            id_ = self.rng.choice((id_, None, None))
        return EventTruth(counter, region, self.world.now_ms + shift_ms, delta, id_, member)

    def pass_time(self) -> None:
        self.world.now_ms += self.rng.choice((30_000, 5 * MINUTE_MS, SLOT_MS, 2 * SLOT_MS))

    def compact(self) -> None:
        partition = self.rng.below(len(self.world.log.partitions))
        self.world.changelog.compact(partition, drop_tombstones=self.rng.random() < 0.5)

    def add_partition(self) -> None:
        if len(self.world.log.partitions) < 4:
            self.world.log.partitions.append([])
            self.without_rules.append(self.world.log.partitions[-1])
            if self.rng.random() < 0.5:
                self.send_rules()
            self.rebalance()

    def send_rules(self) -> None:
        """Whoever added partitions sends them the rules, perhaps after the first increments."""
        for records in self.without_rules:
            records.append(RecordTruth(self.world.now_ms, rules=self.rules))
        self.without_rules.clear()

    def trim_log(self) -> None:
        if not self.offsets_lost:  # Retention removes what was counted long ago.
            self.world.log.starts.update(self.world.group.committed)

    def lose_offset(self) -> None:
        committed = self.world.group.committed
        if committed:
            self.offsets_lost = True
            partition = self.rng.choice(list(committed))
            if self.rng.random() < 0.5 and partition in self.world.group.before:
                self.tell("offset went back")
                committed[partition] = self.world.group.before[partition]
            else:
                self.tell("offset lost")
                del committed[partition]
            self.kill_all()

    def land_in_flight(self) -> None:
        if self.in_flight:
            self.in_flight.pop(self.rng.below(len(self.in_flight)))()

    # What happens to workers

    def tell(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def running(self) -> list[SimWorker]:
        return [worker for worker in self.workers if worker.alive and not worker.stopped]

    def add_worker(self) -> None:
        if len([worker for worker in self.workers if worker.alive]) < MAX_WORKERS:
            self.hire()
            self.rebalance()

    def hire(self) -> SimWorker:
        worker = self.make_worker(self.hired, self.world, self.batch_records)
        self.hired += 1
        self.workers = [*(w for w in self.workers if w.alive), worker]
        return worker

    def replace_worker(self) -> None:
        """Usually somebody is there at once; sometimes nobody is for a while."""
        if not self.running() or self.rng.random() < 0.5:
            self.add_worker()
        self.rebalance()

    def rebalance(self) -> None:
        """First announced, then complete: in between, owners still commit."""
        group, running = self.world.group, self.running()
        if not group.preparing:
            group.preparing = True
            for worker in running:
                worker.ends_at_notice = dict(self.world.changelog.ends)
            return
        if not running:
            return
        group.preparing = False
        group.generation += 1
        for partition in range(len(self.world.log.partitions)):
            group.owners[partition] = self.rng.choice(running).number
        for worker in running:
            worker.noticed = False
        self.tell("rebalance")

    def kill(self) -> None:
        if running := self.running():
            self.rng.choice(running).die()
            self.tell("kill")
            self.replace_worker()

    def kill_all(self) -> None:
        for worker in self.workers:
            worker.die()

    def stop(self) -> None:
        if running := self.running():
            self.rng.choice(running).stopped = True
            self.tell("stop")
            self.replace_worker()

    def wake(self) -> None:
        stopped = [worker for worker in self.workers if worker.alive and worker.stopped]
        if stopped:
            self.rng.choice(stopped).stopped = False
            self.tell("wake")

    def fetch(self) -> None:
        owning = [worker for worker in self.running() if worker.checkpointer.owned]
        if owning:
            # Preferably while something is being written: that is when it is most in the way.
            busy = [worker for worker in owning if not worker.idle]
            worker = self.rng.choice(busy or owning)
            partition = self.rng.choice(list(worker.checkpointer.owned))
            worker.fetch(partition, self.rng.choice((1, 2, 10)))

    def begin_flush(self) -> None:
        for worker in self.idle_owner():
            worker.start(worker.checkpointer.flush())

    def begin_checkpoint(self) -> None:
        for worker in self.idle_owner():
            worker.start(worker.checkpointer.checkpoint())

    def idle_owner(self) -> list[SimWorker]:
        owners = [w for w in self.running() if w.idle and w.checkpointer.owned]
        return [self.rng.choice(owners)] if owners else []

    def step_worker(self) -> None:
        running = self.running()
        if not running:
            self.add_worker()
            return
        if self.world.group.preparing and self.rng.random() < 0.3:
            self.rebalance()
        busy = [w for w in running if w.pending or not w.noticed or not w.checkpointer.owned]
        worker = self.rng.choice(busy or running)
        if not worker.noticed and self.rng.random() < 0.5:
            worker.notice_rebalance()
        elif worker.pending is None:
            if worker.checkpointer.owned:
                self.rng.choice((self.fetch, self.begin_flush, self.begin_checkpoint))()
            else:
                worker.start_recovery_when_idle()
        elif not worker.checkpointer.owned and self.rng.random() < 0.8:
            self.finish(worker)  # Most recoveries go well, and are not what a schedule is about.
        else:
            self.decide(worker)

    def decide(self, worker: SimWorker) -> None:
        """Whether the pending operation happens, is told, is torn, or comes late."""
        operation = worker.pending
        assert operation is not None
        fate = self.rng.random()
        if operation.name == "append" and len(operation.atoms) > 1:
            fate += 0.2  # A torn one is what recovery most easily gets wrong.
        if fate < 0.92:
            worker.answer(operation.take_effect())
        elif fate < 0.945:
            if self.rng.random() < 0.5:
                self.tell("no effect, no answer")
            else:
                self.tell("a late effect, no answer")
                self.delay(operation)
            worker.fail()
        elif fate < 0.97:
            self.tell("effect, no answer")
            operation.take_effect()
            worker.fail()
        else:
            done = self.rng.below(len(operation.atoms) + 1)
            for atom in self.stored(operation, done):
                atom()
            if self.rng.random() < 0.3:  # What was sent may still arrive, in its order.
                rest = operation.atoms[done:]
                self.in_flight.append(lambda: [atom() for atom in rest])
            self.tell(f"death at {operation.name}")
            worker.die()
            self.replace_worker()

    def stored(self, operation: Operation[Any], count: int) -> Sequence[Callable[[], Any]]:
        """What is there of a write in whose midst its sender died.

        Of an append that is how it begins: its last batch is sent when the others are confirmed.
        """
        return operation.atoms[:count]

    def delay(self, operation: Operation[Any]) -> None:
        """It lands later, though its sender lives on and does other things meanwhile.

        Not so an append: an idempotent producer's batches are stored in their order or not at all.
        """
        atoms = operation.atoms
        if operation.name != "append":
            self.in_flight.append(lambda: [atom() for atom in atoms])

    # The end

    def quiet_down(self) -> None:
        """Zombies wake and finish, late writes land, one worker counts the rest; then compare."""
        for worker in self.workers:
            worker.stopped = False
            self.finish(worker)
        while self.in_flight:
            self.land_in_flight()
        self.kill_all()
        for _ in range(QUIET_TRIES):
            worker = self.hire()
            self.world.group.preparing = True
            self.rebalance()
            worker.notice_rebalance()
            self.finish(worker)
            if worker.alive and worker.checkpointer.owned:
                self.count_the_rest(worker)
                break
        self.refused = not worker.alive
        self.problem = self.difference()

    def finish(self, worker: SimWorker) -> None:
        while worker.alive and worker.pending is not None:
            worker.answer(worker.pending.take_effect())

    def count_the_rest(self, worker: SimWorker) -> None:
        for partition in list(worker.checkpointer.owned):
            worker.fetch(partition, 1_000_000)
        worker.start(worker.checkpointer.flush())
        self.finish(worker)

    def difference(self) -> str | None:
        return self.wrong_cells() or (self.wrong_summaries() if self.summarises else None)

    def wrong_summaries(self) -> str | None:
        clickhouse = self.world.clickhouse
        truths = [count(*one) for one in enumerate(self.world.log.partitions)]
        registers: dict[Register, int] = {}
        for truth in truths:
            for place, rank in truth.registers.items():
                registers[place] = max(registers.get(place, 0), rank)
        buckets = {k: v for truth in truths for k, v in truth.buckets.items()}
        heaviest = {k: v for truth in truths for k, v in truth.heaviest.items()}
        stored = {place: counts for place, (_, counts) in clickhouse.heaviest.items()}
        both: list[tuple[str, Mapping[Any, Any], Mapping[Any, Any]]] = [
            ("registers", clickhouse.registers, registers),
            ("buckets", clickhouse.buckets, buckets),
            ("the heaviest", stored, heaviest),
        ]
        for what, found, must in both:
            if not self.refused and found != must:
                wrong = [k for k in {**found, **must} if found.get(k) != must.get(k)]
                return f"{what}: {[(k, found.get(k), must.get(k)) for k in wrong[:3]]}"
        return None

    def wrong_cells(self) -> str | None:
        for partition, records in enumerate(self.world.log.partitions):
            truth = count(partition, records)
            stored = self.world.clickhouse.counts(partition)
            for place, values in stored.items():
                expected = truth.cells.get(place, (0, 0, 0))
                if any(has > must for has, must in zip(values, expected, strict=True)):
                    return f"above the truth: {place} is {values}, must be {expected}"
            if not self.refused and stored != truth.cells:
                missing = {k: v for k, v in truth.cells.items() if stored.get(k) != v}
                return f"below the truth: {missing}, stored {[stored.get(k) for k in missing]}"
            if (ledger := self.wrong_ledger(partition, truth.ledger)) is not None:
                return ledger
            if strange := self.world.misplaced.get(partition, set()) - truth.refused:
                return f"refused, but must be counted: {strange}"
        if self.world.refusals:
            return f"refused: {self.world.refusals[0]}"
        return None

    def wrong_ledger(self, partition: int, truth: Mapping[int, tuple[int, ...]]) -> str | None:
        """A slot that is not as the log has it; of a shard that was refused it may be behind."""
        stored = self.world.clickhouse.ledger.get(partition, {})
        for slot_ms in sorted({*stored, *truth}):
            found, must = stored.get(slot_ms), truth.get(slot_ms)
            if found is None or must is None or found != must:
                behind = found is None or (must is not None and found <= must)
                if not (self.refused and behind):
                    return f"ledger of {partition} at {slot_ms}: {found}, must be {must}"
        return None


def _pass_over(_shard: Shard, _counted: object) -> None:
    """Instead of `Shard.summarise`."""


def played(seeds: Iterable[int]) -> Iterator[Schedule]:
    """The schedules of these seeds, one after the other.

    The garbage collector is off meanwhile: a schedule leaves no cycles behind, and looking for them
    takes time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        for seed in seeds:
            yield Schedule(seed).run()
    finally:
        if was_on:
            gc.enable()
