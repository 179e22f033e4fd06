"""Who was where and when, written to a real ClickHouse as workers do it; the truth is sets."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from clickhouse_connect.driver import Client

from pipeline.reads import uniques as unique_reads
from pipeline.reads.reads import Reads
from pipeline.reads.uniques import Question, UniquesAnswer
from pipeline.rules import CountingRules
from schemas.rules import GRAIN_MS, Grain
from sketches.distinct import Distinct
from tests.integration.rollup.site import seconds
from tests.kit.clocks import ManualClock

TODAY = date(2026, 3, 20)
NOW_S = seconds(TODAY, 12, 30) + 20
HOME, ABOUT = "views:home", "views:about"


@dataclass
class Members:
    """Who was where and when; written to ClickHouse as registers of every grain that is kept."""

    client: Client
    grains: tuple[Grain, ...] = ("1h", "1d")
    precision: int = 12
    build: int = 1
    seen: list[tuple[str, str, int, str]] = field(default_factory=list)

    def write(self, counter: str, region: str, at_s: int, members: Iterable[str]) -> None:
        """One sketch per grain, in one row."""
        self.write_all([(counter, region, at_s, members)])

    def write_all(self, visits: Iterable[tuple[str, str, int, Iterable[str]]]) -> None:
        """One block per grain; each visit is a row of it."""
        made = []
        for counter, region, at_s, members in visits:
            named = list(members)
            self.seen += [(counter, region, at_s, member) for member in named]
            sketch = Distinct(self.precision)
            sketch.add_many(named)
            made.append((counter, region, at_s, sketch))
        for grain in self.grains:
            self.insert(grain, made)

    def insert(self, grain: Grain, rows: list[tuple[str, str, int, Distinct]]) -> None:
        """Insert as the sink does, with the day of the event as the slot's."""
        size_s = GRAIN_MS[grain] // 1000
        times = [at_s for _, _, at_s, _ in rows]
        maps = [zip(*sketch.registers(), strict=True) for *_, sketch in rows]
        columns = {
            "build": pa.array([self.build] * len(rows), pa.uint32()),
            "counter": pa.array([counter for counter, *_ in rows]),
            "region": pa.array([region for _, region, *_ in rows]),
            "window": pa.array([at - at % size_s for at in times]).cast(pa.timestamp("s", "UTC")),
            "precision": pa.array([sketch.precision for *_, sketch in rows], pa.uint8()),
            "slot_day": pa.array([datetime.fromtimestamp(at, UTC).date() for at in times]),
            "registers": pa.array(map(list, maps), pa.map_(pa.uint16(), pa.uint8())),
        }
        self.client.insert_arrow(f"tally.distinct_{grain}", pa.table(columns))

    def truth(
        self, *counters: str, since_s: int = 0, until_s: int = 2**32, region: str | None = None
    ) -> set[str]:
        return {
            member
            for counter, where, at_s, member in self.seen
            if counter in counters and since_s <= at_s < until_s and region in {None, where}
        }


def sketched(members: Iterable[str], precision: int = 12) -> tuple[int, int, int]:
    """What a sketch of exactly these members tells."""
    sketch = Distinct(precision)
    sketch.add_many(sorted(members))
    return sketch.uniques()


def people(first: int, count: int) -> list[str]:
    return [f"user-{number}" for number in range(first, first + count)]


def rows(client: Client, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in client.query(query).result_rows]


def of(counter: str) -> str:
    return f"counter = '{counter}'"


def ask(client: Client, *counters: str, **question: Any) -> UniquesAnswer:
    reads = Reads(client, ManualClock(NOW_S + 1))
    return unique_reads.uniques(reads, Question(counters, **question))


def number(answer: UniquesAnswer) -> tuple[int, int, int]:
    return answer.uniques, answer.low, answer.high


def flushed(client: Client) -> None:
    moment = datetime.fromtimestamp(NOW_S, UTC)
    names = ["build", "replica", "shard", "flushed_through", "log_time", "flushed_at"]
    client.insert("tally.positions", [[1, "main", 0, 7, moment, moment]], column_names=names)


def applied(client: Client, rules: CountingRules) -> None:
    row = [rules.version, rules.bytes.decode(), datetime.fromtimestamp(NOW_S, UTC), ""]
    names = ["version", "document", "applied_at", "note"]
    client.insert("tally.rules", [row], column_names=names)


def expected_windows(
    members: Members, counter: str, grain: Grain, region: str | None = None
) -> dict[int, tuple[int, int, int]]:
    size_s = GRAIN_MS[grain] // 1000
    starts = {at_s - at_s % size_s for _, where, at_s, _ in members.seen if region in {None, where}}
    found = {
        start: members.truth(counter, since_s=start, until_s=start + size_s, region=region)
        for start in starts
    }
    return {start: sketched(truth) for start, truth in found.items() if truth}
