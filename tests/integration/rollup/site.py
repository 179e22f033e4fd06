"""Cells as workers flush them into a real ClickHouse, and a truth that is kept beside it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from clickhouse_connect.driver import Client

from pipeline.clock import SystemClock
from pipeline.reads.lifetimes import read_border, read_lifetimes
from pipeline.reads.reads import Reads
from pipeline.reads.settled import Settled
from pipeline.rollup.rollup import Rollup
from pipeline.rollup.steps import Rolled
from schemas.families import Families

REPLICA = "main"
MINUTE_S, SLOT_S, HOUR_S, DAY_S = 60, 60, 3600, 86400

_COLUMNS = "build, counter, region, window, slot, replica, shard, p, n, duplicates, through"


class Cell(NamedTuple):
    """A cell's key; times are seconds since 1970."""

    counter: str
    region: str
    window_s: int
    slot_s: int
    shard: int

    def at(self, grain_s: int) -> tuple[str, str, int]:
        """The window of a coarser grain it belongs to."""
        return self.counter, self.region, self.window_s - self.window_s % grain_s


def seconds(day: date, hour: int = 0, minute: int = 0) -> int:
    return int(datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC).timestamp())


@dataclass
class Truth:
    """Every cell that was ever flushed, at its greatest."""

    cells: dict[Cell, tuple[int, int]] = field(default_factory=dict)

    def flushed(self, cell: Cell, p: int, n: int) -> None:
        old_p, old_n = self.cells.get(cell, (0, 0))
        self.cells[cell] = max(p, old_p), max(n, old_n)

    def windows(self, grain_s: int, since_s: int = 0) -> dict[tuple[str, str, int], int]:
        counts: Counter[tuple[str, str, int]] = Counter()
        for cell, (p, n) in self.cells.items():
            if cell.window_s >= since_s:
                counts[cell.at(grain_s)] += p - n
        return dict(counts)

    def totals(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for cell, (p, n) in self.cells.items():
            counts[cell.counter] += p - n
        return dict(counts)


@dataclass
class Site:
    """One build's cells in one ClickHouse. `client` is replaced when ClickHouse is restarted."""

    client: Client
    build: int = 1
    truth: Truth = field(default_factory=Truth)
    settled: Settled = field(default_factory=lambda: Settled(SystemClock()))

    def flush(self, cells: Iterable[tuple[Cell, int, int]], duplicates: int = 0) -> None:
        """Insert absolute values as one block, as a worker's flush does."""
        rows = []
        for cell, p, n in cells:
            self.truth.flushed(cell, p, n)
            window, slot = (datetime.fromtimestamp(at, UTC) for at in (cell.window_s, cell.slot_s))
            key = [self.build, cell.counter, cell.region, window, slot, REPLICA, cell.shard]
            rows.append([*key, p, n, duplicates, 1])
        self.client.insert(
            "tally.cells_1m",
            rows,
            column_names=_COLUMNS.split(", "),
            settings={"max_partitions_per_insert_block": 0},
        )

    def flush_position(self, shard: int, log_s: int, replica: str = REPLICA) -> None:
        """A position row, as it follows a flush."""
        self.flush_positions({shard: log_s}, replica)

    def flush_positions(self, log_s: dict[int, int], replica: str = REPLICA) -> None:
        """Position rows of some shards, as one block."""
        rows = [
            [self.build, replica, shard, 1, datetime.fromtimestamp(at_s, UTC)]
            for shard, at_s in log_s.items()
        ]
        names = ["build", "replica", "shard", "flushed_through", "log_time"]
        self.client.insert("tally.positions", rows, column_names=names)

    def roll_up(
        self, partitions: int, families: Families | None = None, longest_query_s: float = 0
    ) -> Rolled:
        return Rollup(
            self.client,
            self.build,
            REPLICA,
            families or Families(),
            SystemClock(),
            longest_query_s=longest_query_s,
        ).run(partitions)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.client.query(query).result_rows]

    def windows(self, grain: str, where: str = "1") -> dict[tuple[str, str, int], int]:
        """What the view by region says, and that the one without regions agrees with it."""
        rows = self.rows(
            "SELECT counter, toString(region), toUnixTimestamp(window), toString(count) "
            f"FROM tally.counts_by_region_{grain} WHERE {where}"
        )
        found = {(c, region, int(at)): int(count) for c, region, at, count in rows}
        assert len(found) == len(rows)
        together: Counter[tuple[str, int]] = Counter()
        for (counter, _, at), count in found.items():
            together[counter, at] += count
        rows = self.rows(
            f"SELECT counter, toUnixTimestamp(window), toString(count) FROM tally.counts_{grain} "
            f"WHERE {where}"
        )
        assert {(c, int(at)): int(count) for c, at, count in rows} == dict(together)
        return found

    def totals(self) -> dict[str, int]:
        rows = self.rows("SELECT counter, toString(net) FROM tally.totals")
        return {counter: int(net) for counter, net in rows}

    def short_totals(self) -> dict[str, int] | None:
        """The same by the short query; None where it cannot be used."""
        reads = Reads(self.client, SystemClock())
        positions = reads.positions()
        border = read_border(reads, len(positions))
        if border is None:
            return None
        counters = [str(name) for (name,) in self.rows("SELECT counter FROM tally.totals")]
        found = read_lifetimes(
            reads,
            border,
            counters,
            positions=positions,
            settled=self.settled,
        )
        return {
            counter: life[0] - life[1] for (counter,), sums in found.items() if (life := sums.life)
        }

    def partitions_of(self, table: str) -> set[str]:
        """The days (or months) of which a table has parts."""
        rows = self.rows(
            "SELECT DISTINCT partition FROM system.parts WHERE database = 'tally' AND active "
            f"AND table = '{table}' AND startsWith(partition, '({self.build},')"
        )
        return {partition.split("'")[1] for (partition,) in rows}
