"""Seeded schedules of shards, leaders, drops and long queries; every view must be exact throughout.

The passes are the real ones (pipeline/rollup/steps.py). Shards flush, are paused for days, and
wake as zombies that flush what is old; partitions are added, on brokers whose clocks differ; a
statement's SELECT and INSERT are apart, and any answer may be lost, with or without its effect, or
the effect may come later; several leaders work at once.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from pipeline.placing import slot_of
from pipeline.rollup import steps as rollup_steps
from pipeline.rollup.steps import Operation
from schemas.families import Families, parse_families
from tests.simulation.rollups_statements import Effect, Statements
from tests.simulation.rollups_world import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    NONE,
    PN,
    Minute,
    Tables,
    TrueViews,
    Views,
    views,
)

FAMILIES: Families = parse_families(
    """
[default]
retention = { "1m" = "2d", "1h" = "4d", "1d" = "forever" }
[families.short]
retention = { "1m" = "1d", "1h" = "1h", "1d" = "5d" }
[families.sketch]
retention = { "1m" = "1d", "1h" = "3d", "1d" = "7d" }
"""
)
COUNTERS = ["long:a", "short:b", "sketch:0"]
START_MS = 1_768_900_000_000
"""20 January: months end while schedules run."""
LONGEST_QUERY_MS = 6 * HOUR_MS
SKEW_MS_MAX = 20 * HOUR_MS
BUILDS = (1, 2)
STEPS = 260

RECORDS = (
    rollup_steps.ConfirmShards,
    rollup_steps.ConfirmFamilies,
    rollup_steps.ConfirmFinal,
    rollup_steps.ConfirmDeleted,
)
"""What changes no cell."""


@dataclass
class Partition:
    """A partition of the log on a broker with a clock of its own."""

    skew_ms: int
    log: list[tuple[int, str, int, int]] = field(default_factory=list)


@dataclass
class Worker:
    """What one build counted of one shard: absolute cells, and how far it is."""

    offset: int = 0
    log_ms: int = 0
    cells: dict[Minute, PN] = field(default_factory=dict)
    paused_until_ms: int = 0


@dataclass
class Leader:
    """A pass under way; `pending` is the second half of a statement whose first half is done."""

    build: int
    steps: Generator[Operation, Any, rollup_steps.Rolled]
    operation: Operation
    pending: Effect | None = None


@dataclass
class Query:
    """A reader that looks at one table after the other, and must not take too long."""

    build: int
    began_ms: int
    truth: Views
    order: list[str]
    seen: dict[str, Any] = field(default_factory=dict)


class Schedule:
    """One seed's schedule. `run` plays it; `problem` says what went wrong, if anything did."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.problem: str | None = None
        self.drops = 0
        self._random = random.Random(seed)
        self.store = Statements(START_MS, {build: Tables() for build in BUILDS})
        self._partitions = [Partition(0), Partition(self._skew_ms())]
        self._workers: dict[tuple[int, int], Worker] = {}
        self._leaders: list[Leader] = []
        self._queries: list[Query] = []
        self._late: list[Effect] = []
        self._past_ms = dict.fromkeys(BUILDS, 0)

    def run(self) -> Schedule:
        """Play all steps, or up to the first problem."""
        actions = [
            self._append,
            self._flush,
            self._pass_time,
            self._ask,
            self._grow,
            self._late_one,
        ]
        weights = [20, 20, 12, 8, 0.4, 3]
        # In some schedules no leader is there for weeks, and then catches up in a short time.
        away = self._random.choice([0, 0, STEPS // 2])
        for number in range(STEPS):
            if away and number == away:
                weights = [4, 20, 0.5, 30, 0.4, 3]
            if number >= away and self._random.random() < 0.5:
                self._lead()
            else:
                self._random.choices(actions, weights)[0]()
            if self.problem is not None:
                break
        return self

    def _skew_ms(self) -> int:
        return self._random.choice([0, 0, self._random.randrange(SKEW_MS_MAX)])

    def _pass_time(self) -> None:
        self.store.now_ms += self._random.choice(
            [MINUTE_MS, HOUR_MS, 5 * HOUR_MS, DAY_MS, 3 * DAY_MS]
        )

    def _grow(self) -> None:
        self._partitions.append(Partition(self._skew_ms()))

    def _append(self) -> None:
        partition = self._random.choice(self._partitions)
        for _ in range(self._random.randrange(1, 4)):
            log_ms = self.store.now_ms - partition.skew_ms
            at_ms = log_ms - self._random.choice([0, 0, 3 * MINUTE_MS, HOUR_MS, DAY_MS])
            delta = self._random.choice([1, 1, 5, -1])
            partition.log.append((log_ms, self._random.choice(COUNTERS), at_ms, delta))

    def _flush(self) -> None:
        build, shard = self._random.choice(BUILDS), self._random.randrange(len(self._partitions))
        worker = self._workers.setdefault((build, shard), Worker())
        if worker.paused_until_ms > self.store.now_ms:
            return
        if self._random.random() < 0.05:
            worker.paused_until_ms = self.store.now_ms + self._random.randrange(6 * DAY_MS)
        log = self._partitions[shard].log
        end = self._random.randrange(worker.offset, len(log) + 1) if log else 0
        changed: dict[Minute, PN] = {}
        for log_ms, counter, at_ms, delta in log[worker.offset : end]:
            worker.log_ms = max(worker.log_ms, log_ms)
            if not delta:
                continue
            key = Minute(counter, at_ms - at_ms % MINUTE_MS, slot_of(worker.log_ms), shard)
            p, n = worker.cells.get(key, NONE)
            worker.cells[key] = changed[key] = p + max(delta, 0), n + max(-delta, 0)
        worker.offset = end
        if end == len(log) and self._random.random() < 0.7:
            # A heartbeat moves an idle partition on.
            worker.log_ms = max(worker.log_ms, self.store.now_ms - self._partitions[shard].skew_ms)
            log.append((worker.log_ms, "", 0, 0))
            worker.offset += 1
        self._write_cells(build, shard, changed, worker.log_ms)

    def _write_cells(self, build: int, shard: int, cells: dict[Minute, PN], log_ms: int) -> None:
        tables = self.store.tables[build]

        def insert() -> None:
            tables.flush(cells)

        insert()
        if self._random.random() < 0.1:
            self._late.append(insert)
        if log_ms and self._random.random() < 0.8:
            tables.positions[shard] = max(tables.positions.get(shard, 0), log_ms)
        self._check(build)

    def _late_one(self) -> None:
        if self._late:
            self._late.pop(self._random.randrange(len(self._late)))()
            for build in BUILDS:
                self._check(build)

    def _lead(self) -> None:
        if len(self._leaders) < 3 and (not self._leaders or self._random.random() < 0.03):
            steps = rollup_steps.rollup_pass(len(self._partitions), FAMILIES, LONGEST_QUERY_MS)
            self._leaders.append(Leader(self._random.choice(BUILDS), steps, next(steps)))
        leader = self._random.choice(self._leaders)
        # Mostly one leader goes on for a while, or no pass would ever come to its end.
        for _ in range(self._random.choice([1, 3, 10, 30])):
            self._step(leader)
            if leader not in self._leaders or self.problem is not None:
                break

    def _step(self, leader: Leader) -> None:
        if leader.pending is None:
            answer, effect = self.store.answer(leader.build, leader.operation)
            if effect is not None:
                leader.pending = effect
                return
        else:
            answer, effect, leader.pending = None, leader.pending, None
            fate = self._random.random()
            if fate < 0.03:
                self._end(leader)  # Without effect.
                return
            if fate < 0.06:
                self._late.append(effect)
                self._end(leader)
                return
            effect()
            if not isinstance(leader.operation, RECORDS):
                self._check(leader.build)
            if fate < 0.08:
                self._end(leader)  # The answer was lost.
                return
        try:
            leader.operation = leader.steps.send(answer)
        except StopIteration as stop:
            self.drops += len(stop.value.dropped)
            self._end(leader)

    def _end(self, leader: Leader) -> None:
        leader.steps.close()
        self._leaders.remove(leader)

    def _ask(self) -> None:
        """Begin a query, or let one read its next table; one that takes too long is killed."""
        self._queries = [
            query
            for query in self._queries
            if self.store.now_ms <= query.began_ms + LONGEST_QUERY_MS
        ]
        if not self._queries or self._random.random() < 0.3:
            build = self._random.choice(BUILDS)
            order = self._random.sample(["1m", "1h", "1d", "life"], 4)
            truth = TrueViews.of(self.store.tables[build].truth)
            self._queries.append(Query(build, self.store.now_ms, truth, order))
        query = self._random.choice(self._queries)
        tables, name = self.store.tables[query.build], query.order.pop()
        query.seen[name] = dict(tables.minutes if name == "1m" else tables.rolled[name])
        if not query.order:
            self._queries.remove(query)
            found = views(query.seen["1m"], query.seen).totals
            latest = TrueViews.of(tables.truth).totals
            for counter, (p, n) in query.truth.totals.items():
                low, high, seen = (p, n), latest[counter], found.get(counter, NONE)
                if not (low[0] <= seen[0] <= high[0] and low[1] <= seen[1] <= high[1]):
                    self.problem = f"a long query saw {seen} of {counter}, not {low} to {high}"

    def _check(self, build: int) -> None:
        """Totals are always exact; hours and days as long as they are kept."""
        tables = self.store.tables[build]
        found, expected = views(tables.minutes, tables.rolled), TrueViews.of(tables.truth)
        if found.totals != expected.totals:
            self.problem = f"totals {found.totals} instead of {expected.totals}"
        least_ms = min(tables.positions.get(shard, 0) for shard in range(len(self._partitions)))
        # What was past before a partition was added may be gone.
        least_ms = self._past_ms[build] = max(least_ms, self._past_ms[build])
        for what, grain_ms in (("hours", HOUR_MS), ("days", DAY_MS)):
            seen, true = getattr(found, what), getattr(expected, what)
            if seen == true:
                continue
            for key in seen.keys() | true.keys():
                kept_ms = _kept_ms(key[0], what)
                is_kept = kept_ms is None or key[1] + grain_ms + kept_ms > least_ms
                if is_kept and seen.get(key) != true.get(key):
                    self.problem = f"{what} {key}: {seen.get(key)} instead of {true.get(key)}"


def _kept_ms(counter: str, what: str) -> int | None:
    kept = FAMILIES.for_counter(counter).retention
    return kept.hour_ms if what == "hours" else kept.day_ms
