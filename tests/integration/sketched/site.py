"""Sketches as workers flush them into a real ClickHouse, and every increment in plain dicts."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import NamedTuple

from pipeline.reads.estimating import Bounds
from pipeline.reads.reads import Reads
from pipeline.rules import CountingRules, FamilyRules
from sketches.frequency import Frequency
from sketches.heavy import Heavy
from tests.integration.rollup.site import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    REPLICA,
    SLOT_S,
    Cell,
    Site,
    seconds,
)
from tests.kit.clocks import ManualClock

TODAY = date(2026, 3, 20)
NOW_S = seconds(TODAY, 12, 30) + 20
SHARDS = 2
KEYS = 60

LATE_S, VERY_LATE_S = 600, 2 * DAY_S


class Increment(NamedTuple):
    """An increment and when it was logged; times are seconds since 1970."""

    counter: str
    at_s: int
    delta: int = 1
    region: str = ""
    shard: int = 0
    late_s: int = 0

    @property
    def window_s(self) -> int:
        """Where it is sketched: in its minute, or the first one of its hour or day if late."""
        size_s = MINUTE_S
        if self.late_s > LATE_S:
            size_s = DAY_S if self.late_s > VERY_LATE_S else HOUR_S
        return self.at_s - self.at_s % size_s

    @property
    def slot_s(self) -> int:
        logged_s = self.at_s + self.late_s
        return logged_s - logged_s % SLOT_S


SketchKey = tuple[str, str, int, int, int]
"""Family group, region, window, slot and shard."""


@dataclass
class Sketched:
    """The sketches of one build. Everything counted is in `increments`, too."""

    site: Site
    error: float = 0.002
    keys: int = 1_000
    increments: list[Increment] = field(default_factory=list)
    sketches: dict[SketchKey, Frequency] = field(default_factory=dict)
    heavies: dict[tuple[str, str, int, int], Heavy] = field(default_factory=dict)

    def count(self, group: str, increments: Iterable[Increment]) -> None:
        """Sketch increments of a family group, and flush what changed, with the cells of the rest.

        To be called once per slot and window of the rest: its cell is written as it stands.
        """
        changed: dict[SketchKey, list[Increment]] = defaultdict(list)
        names: dict[tuple[str, str, int, int], list[Increment]] = defaultdict(list)
        rest: Counter[tuple[Cell, int]] = Counter()
        for one in increments:
            self.increments.append(one)
            changed[group, one.region, one.window_s, one.slot_s, one.shard].append(one)
            for region in (one.region, "*"):
                names[group, region, one.slot_s, one.shard].append(one)
            minute_s = one.at_s - one.at_s % MINUTE_S
            cell = Cell(f"{group}:", "", minute_s, one.slot_s, one.shard)
            rest[cell, one.delta > 0] += abs(one.delta)
        self._frequency(changed)
        self._heavy(names)
        cells = {cell for cell, _ in rest}
        self.site.flush([(cell, rest[cell, True], rest[cell, False]) for cell in cells])

    def truth(
        self, counter: str, since_s: int = 0, until_s: int = 1 << 40, region: str | None = None
    ) -> int:
        """What really happened to a counter."""
        return sum(
            one.delta
            for one in self.increments
            if one.counter == counter
            and since_s <= one.at_s < until_s
            and region in {None, one.region}
        )

    def buckets(self, grain_s: int) -> dict[tuple[str, int, int, int], tuple[int, int]]:
        """What a grain's tables have to hold, by group, width, bucket and window."""
        sums: Counter[tuple[str, int, int, int]] = Counter()
        taken: Counter[tuple[str, int, int, int]] = Counter()
        for (group, _, window_s, _, _), sketch in self.sketches.items():
            added, removed = (table.ravel() for table in sketch.counters())
            start_s = window_s - window_s % grain_s if grain_s else 0
            for bucket in (added + removed).nonzero()[0].tolist():
                key = (group, sketch.width, bucket, start_s)
                sums[key] += int(added[bucket])
                taken[key] += int(removed[bucket])
        return {key: (sums[key], taken[key]) for key in sums}

    def _frequency(self, changed: dict[SketchKey, list[Increment]]) -> None:
        rows = []
        for key, counted in changed.items():
            group, region, window_s, slot_s, shard = key
            sketch = self.sketches.setdefault(key, Frequency.for_error(self.error))
            sketch.add_many([one.counter for one in counted], [one.delta for one in counted])
            added, removed = (table.ravel() for table in sketch.counters())
            at = [_utc(window_s), region, _utc(slot_s), REPLICA]
            rows += [
                [
                    1,
                    group,
                    sketch.width,
                    bucket,
                    *at,
                    shard,
                    int(added[bucket]),
                    int(removed[bucket]),
                ]
                for bucket in (added + removed).nonzero()[0].tolist()
            ]
        names = "build family width bucket window region slot replica shard p n"
        self.site.client.insert(
            "tally.frequency_1m",
            rows,
            column_names=names.split(),
            settings={"max_partitions_per_insert_block": 0},
        )

    def _heavy(self, names: dict[tuple[str, str, int, int], list[Increment]]) -> None:
        rows = []
        for key, counted in names.items():
            group, region, slot_s, shard = key
            heavy = self.heavies.setdefault(key, Heavy(self.keys))
            heavy.add_many([one.counter for one in counted], [one.delta for one in counted])
            top = heavy.top(self.keys)
            row = [1, group, region, _utc(slot_s), REPLICA, shard, len(self.increments)]
            counts = [max(one.high - heavy.missed_max, 0) for one in top]
            rows.append([*row, [one.key for one in top], counts, heavy.missed_max])
        columns = "build family region slot replica shard through counters counts lost"
        self.site.client.insert(
            "tally.heavy_1m",
            rows,
            column_names=columns.split(),
            settings={"max_partitions_per_insert_block": 0},
        )


def _utc(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def flushed(site: Site) -> None:
    moment = datetime.fromtimestamp(NOW_S, UTC)
    names = ["build", "replica", "shard", "flushed_through", "log_time", "flushed_at"]
    rows = [[1, "main", shard, 700, moment, moment] for shard in range(SHARDS)]
    site.client.insert("tally.positions", rows, column_names=names)


def apply_rules(
    site: Site, version: int, families: dict[str, FamilyRules], ago_s: int = 3 * DAY_S
) -> None:
    rules = CountingRules(version, families=families)
    row = [version, rules.bytes.decode(), datetime.fromtimestamp(NOW_S - ago_s, UTC), ""]
    names = ["version", "document", "applied_at", "note"]
    site.client.insert("tally.rules", [row], column_names=names)


def scattered(
    seed: int, family: str, days: float, count: int, deltas: tuple[int, ...] = (1, 1, 3, 9)
) -> list[Increment]:
    """Few keys have most of it. Some is late, never beyond now."""
    print(f"seed {seed}")
    choose = random.Random(seed)
    rows = []
    for _ in range(count):
        at_s = NOW_S - choose.randrange(int(days * DAY_S))
        late_s = min(choose.choice([0, 0, 0, 300, 2 * HOUR_S]), NOW_S - at_s)
        key = int(choose.paretovariate(0.7)) % KEYS
        region, shard = choose.choice(["", "eu"]), choose.randrange(SHARDS)
        delta = choose.choice(deltas)
        rows.append(Increment(f"{family}:{key}", at_s, delta, region, shard, late_s))
    return rows


def reads_of(site: Site) -> Reads:
    return Reads(site.client, ManualClock(NOW_S + 1))


def of_sketch(increments: list[Increment], error: float, counters: list[str]) -> list[Bounds]:
    """What one sketch of all of them says."""
    sketch = Frequency.for_error(error)
    sketch.add_many([one.counter for one in increments], [one.delta for one in increments])
    found = sketch.estimate_many(counters)
    rows = zip(found.values.tolist(), found.lows.tolist(), found.highs.tolist(), strict=True)
    return [Bounds(*row) for row in rows]
