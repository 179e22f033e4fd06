"""The tables as dictionaries: what flushes, rollups and drops do to them, and what views say."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from typing import Any, NamedTuple

from pipeline.rollup.retention import Delete, Drop
from pipeline.rollup.steps import Kind

MINUTE_MS, SLOT_MS, HOUR_MS, DAY_MS = 60_000, 60_000, 3_600_000, 86_400_000

PN = tuple[int, int]
NONE: PN = (0, 0)


class Minute(NamedTuple):
    """The key of a cell."""

    counter: str
    window_ms: int
    slot_ms: int
    shard: int


class Rolled(NamedTuple):
    """The key of a sum: an hour or a day, or 0 for a lifetime; `slot_day` may be a month."""

    counter: str
    window_ms: int
    slot_day: date
    shard: int


def kind_of(counter: str) -> Kind:
    """What holds it: buckets of sketches grow, are added up and go as cells do."""
    return "frequency" if counter.startswith("sketch:") else "cells"


def day_of(at_ms: int) -> date:
    return _day(at_ms // DAY_MS)


@cache
def _day(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=number)


def greatest(one: PN, other: PN) -> PN:
    return max(one[0], other[0]), max(one[1], other[1])


def add_up(parts: dict[Rolled, PN], grain_ms: int) -> dict[Rolled, PN]:
    """Sums of a coarser grain; 0 for lifetimes by months of log time."""
    sums: dict[Rolled, PN] = defaultdict(lambda: NONE)
    for (counter, window_ms, slot_day, shard), (p, n) in parts.items():
        if grain_ms:
            coarse = Rolled(counter, window_ms - window_ms % grain_ms, slot_day, shard)
        else:
            coarse = Rolled(counter, 0, slot_day.replace(day=1), shard)
        old_p, old_n = sums[coarse]
        sums[coarse] = old_p + p, old_n + n
    return sums


def merged(rolled: dict[Rolled, PN], finer: dict[Rolled, PN], grain_ms: int) -> dict[Rolled, PN]:
    """What a view sees: the greater of what was rolled up and what the finer grain adds up to."""
    found = dict(rolled)
    for key, value in add_up(finer, grain_ms).items():
        found[key] = greatest(found.get(key, NONE), value)
    return found


def as_rolled(minutes: dict[Minute, PN]) -> dict[Rolled, PN]:
    """Minutes by slot day, several slots of one together."""
    sums: dict[Rolled, PN] = defaultdict(lambda: NONE)
    for key, (p, n) in minutes.items():
        coarse = Rolled(key.counter, key.window_ms, day_of(key.slot_ms), key.shard)
        sums[coarse] = sums[coarse][0] + p, sums[coarse][1] + n
    return sums


@dataclass
class Tables:
    """One build's tables in ClickHouse, and beside them everything that was ever flushed."""

    minutes: dict[Minute, PN] = field(default_factory=dict)
    rolled: dict[str, dict[Rolled, PN]] = field(
        default_factory=lambda: {"1h": {}, "1d": {}, "life": {}}
    )
    positions: dict[int, int] = field(default_factory=dict)
    rolled_shards: dict[int, int] = field(default_factory=dict)
    final: dict[tuple[Any, date, int], int] = field(default_factory=dict)
    deleted: set[tuple[Any, date, str, int]] = field(default_factory=set)
    truth: dict[Minute, PN] = field(default_factory=dict)

    def flush(self, cells: dict[Minute, PN]) -> None:
        for key, value in cells.items():
            self.minutes[key] = greatest(self.minutes.get(key, NONE), value)
            self.truth[key] = greatest(self.truth.get(key, NONE), value)

    def insert(self, grain: str, sums: dict[Rolled, PN]) -> None:
        table = self.rolled[grain]
        for key, value in sums.items():
            table[key] = greatest(table.get(key, NONE), value)

    def remove(self, removal: Drop | Delete) -> None:
        """Take rows of a day, or of a month of days, out of a table."""

        def goes(counter: str, slot_day: date) -> bool:
            part = slot_day.replace(day=1) if removal.grain == "1d" else slot_day
            if part != removal.day:
                return False
            if isinstance(removal, Drop):
                return True
            named = counter.partition(":")[0] in removal.families.names
            return named != removal.families.all_but

        if removal.grain == "1m":
            self.minutes = {
                key: value
                for key, value in self.minutes.items()
                if not goes(key.counter, day_of(key.slot_ms))
            }
        else:
            table = self.rolled[removal.grain]
            self.rolled[removal.grain] = {
                key: value for key, value in table.items() if not goes(key.counter, key.slot_day)
            }


class Views(NamedTuple):
    """What the views say: p and n, by counter and window; totals by counter."""

    hours: dict[tuple[str, int], PN]
    days: dict[tuple[str, int], PN]
    totals: dict[str, PN]


def views(minutes: dict[Minute, PN], rolled: dict[str, dict[Rolled, PN]]) -> Views:
    hours = merged(rolled["1h"], as_rolled(minutes), HOUR_MS)
    days = merged(rolled["1d"], hours, DAY_MS)
    life = merged(rolled["life"], days, 0)
    totals: dict[str, PN] = defaultdict(lambda: NONE)
    for key, (p, n) in life.items():
        totals[key.counter] = totals[key.counter][0] + p, totals[key.counter][1] + n
    return Views(_by_window(hours), _by_window(days), dict(totals))


def _by_window(sums: dict[Rolled, PN]) -> dict[tuple[str, int], PN]:
    windows: dict[tuple[str, int], PN] = defaultdict(lambda: NONE)
    for key, (p, n) in sums.items():
        at = key.counter, key.window_ms
        windows[at] = windows[at][0] + p, windows[at][1] + n
    return dict(windows)


class TrueViews:
    """What the views have to say, straight from every cell that was ever flushed."""

    @staticmethod
    def of(truth: dict[Minute, PN]) -> Views:
        hours: dict[tuple[str, int], PN] = defaultdict(lambda: NONE)
        days: dict[tuple[str, int], PN] = defaultdict(lambda: NONE)
        totals: dict[str, PN] = defaultdict(lambda: NONE)
        for key, (p, n) in truth.items():
            hour = key.counter, key.window_ms - key.window_ms % HOUR_MS
            day = key.counter, key.window_ms - key.window_ms % DAY_MS
            hours[hour] = hours[hour][0] + p, hours[hour][1] + n
            days[day] = days[day][0] + p, days[day][1] + n
            totals[key.counter] = totals[key.counter][0] + p, totals[key.counter][1] + n
        return Views(dict(hours), dict(days), dict(totals))
