"""One shard as a worker counts it, flushed to a ClickHouse that refuses some of its rows."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.clock import SystemClock
from pipeline.dead_letters import DeadLetter
from pipeline.letters.insert import Inserted, insert
from pipeline.letters.letter import LetterKey, StoredLetter
from pipeline.letters.put_back import by_table
from pipeline.letters.reads import LetterReads
from pipeline.letters.row_table import ClickHouseRowTable
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import Fetched, Shard
from pipeline.writes.sink import ClickHouseSink
from schemas.addresses import ClickHouseAddress
from sketches.distinct import Distinct
from sketches.frequency import Frequency
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, REPLICA, Site, seconds

DAY = date(2026, 3, 10)
NOON_S = seconds(DAY, 12)
PRECISION, ERROR = 12, 0.01
ALL_TABLES = (
    "cells_1m",
    "frequency_1m",
    "heavy_1m",
    "distinct_1m",
    "distinct_1h",
    "distinct_1d",
    "trend_members",
)
GRAINS_S = {"1m": MINUTE_S, "1h": HOUR_S, "1d": DAY_S}
EXACT = FamilyRules(distinct_precision=PRECISION, distinct_grains=("1m", "1h", "1d"))
SKETCHED = msgspec.structs.replace(EXACT, sketched=True, sketch_error=ERROR)
RULES = CountingRules(
    1, families={"views": SKETCHED, "short": SKETCHED, "likes": EXACT, "brief": EXACT}
)


class Increment(NamedTuple):
    """An increment, and when it was logged; times are seconds since 1970."""

    counter: str
    log_s: int
    delta: int = 1
    region: str = "bad"
    member: str | None = None
    late_s: int = 0

    @property
    def family(self) -> str:
        return self.counter.partition(":")[0]

    @property
    def is_sketched(self) -> bool:
        return RULES.families[self.family].sketched

    @property
    def window_s(self) -> int:
        """Where it is sketched: what comes more than ten minutes late, in its hour's first one."""
        at_s = self.log_s - self.late_s
        return at_s - at_s % (HOUR_S if self.late_s > 600 else MINUTE_S)


BucketKey = tuple[str, str, int, int]
"""Family, region, window and bucket."""


@dataclass
class Refusing:
    """The shard, its sink, and everything that was counted in plain lists."""

    site: Site
    url: str
    shard: Shard = field(default_factory=lambda: Shard(0, rules=RULES))
    increments: list[Increment] = field(default_factory=list)

    def count(self, *increments: Increment, refusing: Iterable[str] = ()) -> list[DeadLetter]:
        """Count and flush; the tables refuse rows of the region `bad`. What became of them."""
        self.increments += increments
        self._absorb(increments)
        tables = list(refusing)
        for table in tables:
            self.site.client.command(
                f"ALTER TABLE tally.{table} ADD CONSTRAINT aside CHECK region != 'bad'"
            )
        snapshot = self.shard.snapshot(checkpoint=False)
        sink = ClickHouseSink(ClickHouseAddress(self.url), 1, REPLICA)
        try:
            letters = asyncio.run(_write(sink, snapshot))
        finally:
            sink.close()
            for table in tables:
                self.site.client.command(f"ALTER TABLE tally.{table} DROP CONSTRAINT aside")
        snapshot.confirm("flush")
        return letters

    def insert(self, letters: Iterable[DeadLetter]) -> Inserted:
        topic = _Topic(
            [
                StoredLetter(
                    LetterKey(one.partition, one.offset, one.row, one.timestamp_ms),
                    one.value,
                    one.bytes_total,
                    None,
                )
                for one in letters
            ]
        )
        table = ClickHouseRowTable(ClickHouseAddress(self.url))
        try:
            return insert(
                [letter.key for letter in topic.letters],
                1,
                letters=topic,
                tables=by_table(table, self.site.client, 1),
                memory=LetterReads(self.site.client),
                clock=SystemClock(),
            )
        finally:
            table.close()

    def buckets(self, grain: str) -> dict[BucketKey, tuple[int, int]]:
        """What the table of a grain has to hold."""
        parts: dict[tuple[str, str, int], list[Increment]] = defaultdict(list)
        for one in self._sketched():
            start_s = one.window_s - one.window_s % GRAINS_S[grain]
            parts[one.family, one.region, start_s].append(one)
        found = {}
        for key, counted in parts.items():
            sketch = Frequency.for_error(ERROR)
            sketch.add_many([one.counter for one in counted], [one.delta for one in counted])
            added, removed = (table.ravel() for table in sketch.counters())
            for bucket in (added + removed).nonzero()[0].tolist():
                found[*key, bucket] = int(added[bucket]), int(removed[bucket])
        return found

    def weights(self, grain: str) -> dict[tuple[str, int, str], int]:
        """How much was added, by region, window of log time and counter."""
        found: Counter[tuple[str, int, str]] = Counter()
        for one in self._sketched():
            for region in (one.region, "*"):
                start_s = one.log_s - one.log_s % GRAINS_S[grain]
                found[region, start_s, one.counter] += max(one.delta, 0)
        return +found

    def registers(self, table: str) -> dict[tuple[str, str, int], dict[int, int]]:
        """What a table of registers has to hold, by counter, region and window."""
        grain = table.removeprefix("distinct_")
        members: dict[tuple[str, str, int], list[str]] = defaultdict(list)
        for one in self.increments:
            if one.member is not None:
                at_s = one.log_s - (one.late_s if grain in GRAINS_S else 0)
                start_s = at_s - at_s % GRAINS_S.get(grain, MINUTE_S)
                # Members of a sketched family are those of all that have no cells of their own.
                of = (f"{one.family}:", "") if one.is_sketched else (one.counter, one.region)
                members[*of, start_s].append(one.member)
        return {key: _registers(found) for key, found in members.items()}

    def cells(self, grain: str) -> dict[tuple[str, str, int], int]:
        """The counts of exact families, by counter, region and window."""
        found: Counter[tuple[str, str, int]] = Counter()
        for one in self.increments:
            if not one.is_sketched:
                at_s = one.log_s - one.late_s
                found[one.counter, one.region, at_s - at_s % GRAINS_S[grain]] += one.delta
        return dict(found)

    def _sketched(self) -> list[Increment]:
        return [one for one in self.increments if one.is_sketched]

    def _absorb(self, increments: Iterable[Increment]) -> None:
        rows = sorted(increments, key=lambda one: one.log_s)
        if not rows:
            return
        offsets = np.arange(len(rows), dtype=np.int64) + self.shard.position
        columns = pa.table(
            {
                "counter": pa.array([one.counter for one in rows], pa.string()),
                "region": pa.array([one.region for one in rows], pa.string()),
                "at": pa.array([(one.log_s - one.late_s) * 1000 for one in rows], pa.int64()),
                "delta": pa.array([one.delta for one in rows], pa.int64()),
                "id": pa.nulls(len(rows), pa.string()),
                "offset": pa.array(offsets),
                "row": pa.array([0] * len(rows), pa.int32()),
                "member": pa.array([one.member for one in rows], pa.string()),
            }
        )
        times_ms = np.array([one.log_s * 1000 for one in rows], np.int64)
        fetched = Fetched(offsets, times_ms, int(offsets[-1]) + 1)
        assert self.shard.absorb_columns(columns, fetched) == []


@dataclass
class _Topic:
    letters: list[StoredLetter]

    def find(self, wanted: Iterable[LetterKey]) -> Iterator[StoredLetter]:
        keys = set(wanted)
        return (letter for letter in self.letters if letter.key in keys)


async def _write(sink: ClickHouseSink, snapshot: object) -> list[DeadLetter]:
    cells = await sink.write_cells([snapshot])  # type: ignore[list-item]  # a ShardSnapshot
    return cells + await sink.write_summaries([snapshot])  # type: ignore[list-item]


def _registers(members: list[str]) -> dict[int, int]:
    sketch = Distinct(PRECISION)
    sketch.add_many(members)
    indexes, ranks = sketch.registers()
    return dict(zip(map(int, indexes), map(int, ranks), strict=True))


def stored_buckets(site: Site, grain: str) -> dict[BucketKey, tuple[int, int]]:
    """What is in the table itself, whatever finer ones hold."""
    rows = site.rows(
        "SELECT toString(family), toString(region), toUnixTimestamp(window), bucket, "
        f"toInt64(sum(p)), toInt64(sum(n)) FROM tally.frequency_{grain} FINAL GROUP BY ALL"
    )
    return {(family, region, at, bucket): (p, n) for family, region, at, bucket, p, n in rows}


def stored_weights(site: Site, grain: str) -> dict[tuple[str, int, str], int]:
    rows = site.rows(
        "SELECT toString(region), toUnixTimestamp(window), counter, toInt64(weight) "
        f"FROM tally.heavy_{grain} FINAL"
    )
    return {(region, at, counter): weight for region, at, counter, weight in rows}


def stored_registers(site: Site, table: str) -> dict[tuple[str, str, int], dict[int, int]]:
    rows = site.rows(
        "SELECT counter, toString(region), toUnixTimestamp(window), maxMap(registers) "
        f"FROM tally.{table} GROUP BY ALL"
    )
    return {(counter, region, at): dict(found) for counter, region, at, found in rows}
