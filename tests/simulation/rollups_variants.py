"""Rollups with one safeguard taken away; the simulation must notice each.

The number in a name is that of the sentence in docs/exactness.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from pipeline.rollup import retention
from pipeline.rollup import steps as rollup_steps
from pipeline.rollup.steps import Operation, Progress
from tests.simulation.rollups import Leader, Schedule
from tests.simulation.rollups_statements import Statements
from tests.simulation.rollups_world import PN, Rolled, Tables, add_up

Variant = Callable[[], Any]
"""Makes a context in which schedules run broken."""


@contextmanager
def sentence_10_positions_read_after_the_cells() -> Iterator[None]:
    """What was flushed meanwhile is taken for rolled up."""
    real = rollup_steps.rollup_pass

    def pass_(*given: Any) -> Generator[Operation, Any, rollup_steps.Rolled]:
        steps = real(*given)
        answer: Any = None
        while True:
            try:
                operation = steps.send(answer)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # a generator's value has no type
            if isinstance(operation, rollup_steps.ConfirmShards):
                later: Progress = yield rollup_steps.ReadProgress()
                operation = rollup_steps.ConfirmShards(later.flushed)
            answer = yield operation

    with patch.object(rollup_steps, "rollup_pass", pass_):
        yield


@contextmanager
def sentence_10_not_waiting_for_the_insert() -> Iterator[None]:
    """A pass goes on before its rollup is confirmed, which may come later or never."""
    real = Schedule._step

    def step(self: Schedule, leader: Leader) -> None:
        if isinstance(leader.operation, rollup_steps.Roll) and leader.pending is not None:
            self._late.append(leader.pending)
            leader.pending = lambda: None
        real(self, leader)

    with patch.object(Schedule, "_step", step):
        yield


@contextmanager
def sentence_11_positions_of_another_build() -> Iterator[None]:
    """A build believes itself as far as the one that is ahead."""

    def progress(self: Statements, build: int) -> Progress:
        flushed: dict[int, int] = {}
        for tables in self.tables.values():
            for shard, log_ms in tables.positions.items():
                flushed[shard] = max(flushed.get(shard, 0), log_ms)
        return Progress(flushed, dict(self.tables[build].rolled_shards))

    with patch.object(Statements, "progress", progress):
        yield


@contextmanager
def sentence_11_only_shards_with_a_position() -> Iterator[None]:
    """A partition that was never flushed is taken for past."""

    def least(progress: Progress, _partitions: int) -> int | None:
        return min(progress.flushed.values(), default=None)

    with patch.object(rollup_steps, "least_log_ms", least):
        yield


@contextmanager
def sentence_11_partitions_as_they_were() -> Iterator[None]:
    """A day that was final stays so when partitions are added."""
    real = rollup_steps.least_log_ms

    def days(self: Statements, tables: Tables, _partitions: int) -> retention.Days:
        counts = {count for _, _, count in tables.final} or {0}
        return real_days(self, tables, min(counts))

    def least(progress: Progress, _partitions: int) -> int | None:
        return real(progress, 2)

    real_days = Statements._days
    with (
        patch.object(Statements, "_days", days),
        patch.object(rollup_steps, "least_log_ms", least),
    ):
        yield


@contextmanager
def sentence_12_dropped_under_a_query() -> Iterator[None]:
    """Partitions are dropped as soon as their rollup is confirmed."""
    real = retention.removals

    def removals(days: Any, least_ms: int, families: Any, _longest_query_ms: int) -> Any:
        return real(days, least_ms, families, 0)

    with patch.object(retention, "removals", removals):
        yield


@contextmanager
def rolled_up_in_a_closed_slot_only() -> Iterator[None]:
    """The next pass begins at the log time, though the slot that was open then goes on."""
    with patch.object(rollup_steps, "slot_of", lambda log_ms: log_ms):
        yield


@contextmanager
def sums_added_instead_of_compared() -> Iterator[None]:
    """A rollup that is written twice counts twice."""

    def insert(_self: Statements, tables: Tables, grain: str, sums: dict[Rolled, PN]) -> None:
        table = tables.rolled[grain]
        for key, (p, n) in sums.items():
            before = table.get(key, (0, 0))
            table[key] = before[0] + p, before[1] + n

    with patch.object(Statements, "insert", insert):
        yield


@contextmanager
def the_rolled_up_sum_alone() -> Iterator[None]:
    """A view takes what is rolled up where there is something, not the greater of both."""

    def merged(rolled: dict[Rolled, PN], finer: dict[Rolled, PN], grain_ms: int) -> Any:
        return {**add_up(finer, grain_ms), **rolled}

    with patch("tests.simulation.rollups_world.merged", merged):
        yield


@contextmanager
def days_forgotten_without_lifetimes() -> Iterator[None]:
    """Days go although no lifetime total holds them."""
    real = Schedule._step

    def step(self: Schedule, leader: Leader) -> None:
        if isinstance(leader.operation, retention.Fold):
            leader.pending = lambda: None
        real(self, leader)

    with patch.object(Schedule, "_step", step):
        yield


@contextmanager
def sketches_rolled_up_after_the_record() -> Iterator[None]:
    """Sketches come last of all: what is recorded as rolled up may lack them."""
    real = rollup_steps.rollup_pass

    def pass_(*given: Any) -> Generator[Operation, Any, rollup_steps.Rolled]:
        steps, late = real(*given), list[Operation]()
        answer: Any = None
        while True:
            try:
                operation = steps.send(answer)
            except StopIteration as stop:
                yield from late
                return stop.value  # type: ignore[no-any-return]  # a generator's value has no type
            answer = None
            if isinstance(operation, rollup_steps.Roll) and operation.kind == "frequency":
                late.append(operation)
            else:
                answer = yield operation

    with patch.object(rollup_steps, "rollup_pass", pass_):
        yield


VARIANTS: list[Variant] = [
    sentence_10_positions_read_after_the_cells,
    sentence_10_not_waiting_for_the_insert,
    sentence_11_positions_of_another_build,
    sentence_11_only_shards_with_a_position,
    sentence_11_partitions_as_they_were,
    sentence_12_dropped_under_a_query,
    rolled_up_in_a_closed_slot_only,
    sums_added_instead_of_compared,
    the_rolled_up_sum_alone,
    days_forgotten_without_lifetimes,
    sketches_rolled_up_after_the_record,
]

RARELY_CAUGHT: dict[Variant, int] = {
    sentence_11_partitions_as_they_were: 17,
    sentence_12_dropped_under_a_query: 119,
    days_forgotten_without_lifetimes: 152,
}
"""Seeds that notice variants which few schedules do; they are played first."""


def first_caught(variant: Variant, seeds: range) -> Schedule | None:
    """The first schedule that notices the variant, if any does."""
    known = [RARELY_CAUGHT[variant]] if variant in RARELY_CAUGHT else []
    with variant():
        for seed in [*known, *seeds]:
            schedule = Schedule(seed).run()
            if schedule.problem is not None:
                return schedule
    return None
