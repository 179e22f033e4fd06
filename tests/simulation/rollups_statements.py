"""What a pass asks of ClickHouse, answered from dictionaries: reads now, writes a step later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.rollup import retention
from pipeline.rollup import steps as rollup_steps
from pipeline.rollup.steps import Open, Operation
from tests.simulation.rollups_world import (
    DAY_MS,
    HOUR_MS,
    PN,
    Minute,
    Rolled,
    Tables,
    add_up,
    as_rolled,
    day_of,
    kind_of,
)

Effect = Callable[[], None]


class Statements:
    """The tables of all builds, and the clock of the server they are on."""

    def __init__(self, now_ms: int, tables: dict[int, Tables]) -> None:
        self.now_ms = now_ms
        self.tables = tables

    def answer(self, build: int, operation: Operation) -> tuple[Any, Effect | None]:
        """What is read now, and what is to be written a step later."""
        tables = self.tables[build]
        match operation:
            case rollup_steps.ReadProgress():
                return self.progress(build), None
            case rollup_steps.CountOpen(slots, kind):
                found = [
                    (day_of(key.slot_ms), key.counter.partition(":")[0], 1)
                    for key in tables.minutes
                    if _is_open(key, slots) and kind_of(key.counter) == kind
                ]
                return sorted(set(found)), None
            case rollup_steps.Roll(grain, _, first, last) as roll:
                sums = _sums(tables, roll)
                named = {
                    k: v
                    for k, v in sums.items()
                    if first <= k.counter.partition(":")[0] <= last
                    and kind_of(k.counter) == roll.kind
                }
                return None, lambda: self.insert(tables, grain, named)
            case retention.Fold(month):
                days = {
                    k: v
                    for k, v in tables.rolled["1d"].items()
                    if k.slot_day.replace(day=1) == month
                }
                life = add_up(days, 0)
                return None, lambda: self.insert(tables, "life", life)
            case rollup_steps.ReadDays(partitions):
                return self._days(tables, partitions), None
            case _:
                return None, lambda: self._confirm(tables, operation)

    def progress(self, build: int) -> rollup_steps.Progress:
        """How far a build is flushed and rolled up."""
        tables = self.tables[build]
        return rollup_steps.Progress(dict(tables.positions), dict(tables.rolled_shards))

    def insert(self, tables: Tables, grain: str, sums: dict[Rolled, PN]) -> None:
        """The effect of a rollup."""
        tables.insert(grain, sums)

    def _confirm(self, tables: Tables, operation: Operation) -> None:
        match operation:
            case rollup_steps.ConfirmShards(rolled):
                for shard, log_ms in rolled.items():
                    before_ms = tables.rolled_shards.get(shard, 0)
                    tables.rolled_shards[shard] = max(before_ms, log_ms)
            case rollup_steps.ConfirmFinal(grain, days, partitions):
                for day in days:
                    tables.final.setdefault((grain, day, partitions), self.now_ms)
            case rollup_steps.ConfirmDeleted(deletion, partitions):
                text = deletion.families.text()
                tables.deleted.add((deletion.grain, deletion.day, text, partitions))
            case retention.Drop() | retention.Delete() as removal:
                tables.remove(removal)

    def _days(self, tables: Tables, partitions: int) -> retention.Days:
        months = {key.slot_day.replace(day=1): 1 for key in tables.rolled["1d"]}
        return retention.Days(
            now_ms=self.now_ms,
            present={
                "1m": {day_of(key.slot_ms): 1 for key in tables.minutes},
                "1h": {key.slot_day: 1 for key in tables.rolled["1h"]},
                "1d": months,
            },
            final={
                (g, day): at for (g, day, count), at in tables.final.items() if count == partitions
            },
            deleted=frozenset(
                (g, day, text) for g, day, text, count in tables.deleted if count == partitions
            ),
        )


def _is_open(key: Minute, slots: Open) -> bool:
    return key.slot_ms >= max(slots.since.get(key.shard, 0), slots.least_ms)


def _sums(tables: Tables, roll: rollup_steps.Roll) -> dict[Rolled, PN]:
    """As the statements do it: sums of the day that have an open cell in them."""
    grain_ms = HOUR_MS if roll.grain == "1h" else DAY_MS
    minutes = {k: v for k, v in tables.minutes.items() if day_of(k.slot_ms) == roll.day}
    if roll.grain == "1h":
        sums = add_up(as_rolled(minutes), grain_ms)
    else:
        hours = {k: v for k, v in tables.rolled["1h"].items() if k.slot_day == roll.day}
        sums = add_up(hours, grain_ms)
    touched = {
        Rolled(k.counter, k.window_ms - k.window_ms % grain_ms, roll.day, k.shard)
        for k in minutes
        if _is_open(k, roll.open)
    }
    return {key: value for key, value in sums.items() if key in touched}
