"""What flushes cost: processor time per flush and per million cells, bytes per cell.

Run: python -m benchmarks.flush [--rate N] [--seconds S] [--small S] [--json FILE]

One shard counts increments by Zipf's law, second by second of log time, and is flushed after each
as a worker would, without waiting in between. Merges are waited for: they are part of the cost.
Three loads: cells without members, with members (which add registers of hours and days), and
flushes of a few cells only, which tell what a flush costs by itself. The cells must then add up to
what was sent.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import clickhouse_connect
import numpy as np

from benchmarks._counting import decode_and_absorb
from benchmarks._kit import WrongAnswerError, write_json
from benchmarks._replay_log import clickhouse
from benchmarks._tally_run import cpu_s
from pipeline.checkpoint import Position
from pipeline.shard import Shard
from pipeline.writes.sink import ClickHouseSink
from schemas.addresses import ClickHouseAddress
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from schemas.migrate import migrate
from schemas.records import Records
from tests.kit.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver import Client

COUNTERS = 100_000
ZIPF = 1.0
MEMBERS = 100_000
REGIONS = ("eu", "us", "ap")
SMALL_RATE = 10
START_MS = 1_790_000_400_000
SECOND_MS = 1_000
MERGES_TIMEOUT_S = 120
HEADERS = (("content-type", FRAME_CONTENT_TYPE.encode()),)


@dataclass(frozen=True, slots=True)
class Load:
    """So many increments a second of log time, for so many seconds."""

    name: str
    rate: int
    seconds: int
    members: bool


@dataclass(frozen=True, slots=True)
class Cost:
    """What a load came to: cells written by flushes, cells that were left after merging."""

    name: str
    flushes: int
    cells_flushed: int
    cells: int
    worker_s: float
    clickhouse_s: float
    bytes_on_disk: int

    @property
    def cells_per_flush(self) -> float:
        return self.cells_flushed / self.flushes

    @property
    def clickhouse_ms(self) -> float:
        """Of one flush."""
        return self.clickhouse_s / self.flushes * 1e3

    @property
    def worker_ms(self) -> float:
        """Of one flush."""
        return self.worker_s / self.flushes * 1e3


def per_million(ms: float, small_ms: float, cells: float) -> float:
    """Seconds for a million cells: what a flush with them takes beyond one with hardly any."""
    return (ms - small_ms) / 1e3 / cells * 1e6


def increments(load: Load, second: int, rng: np.random.Generator) -> Records:
    """What a producer sends within one second, as one frame."""
    shares = 1 / np.arange(1, COUNTERS + 1) ** ZIPF
    ranks = rng.choice(COUNTERS, load.rate, p=shares / shares.sum()).tolist()
    at_ms = START_MS + second * SECOND_MS
    columns = {
        "counter": [f"likes:post-{rank}" for rank in ranks],
        "delta": [1] * load.rate,
        "at": [at_ms] * load.rate,
        "region": [REGIONS[one] for one in rng.integers(len(REGIONS), size=load.rate).tolist()],
    }
    if load.members:
        columns["member"] = [f"user-{n}" for n in rng.integers(MEMBERS, size=load.rate).tolist()]
    offset, logged = np.array([second], np.int64), np.array([at_ms], np.int64)
    return Records(0, offset, logged, [None], [encode_frame(columns)], [HEADERS])


async def flush(shard: Shard, sink: ClickHouseSink) -> int:
    """As a worker flushes; how many cells it wrote."""
    snapshot = shard.snapshot(checkpoint=False)
    letters = await sink.write_cells([snapshot]) + await sink.write_summaries([snapshot])
    if letters:
        raise WrongAnswerError(f"ClickHouse refused rows: {letters[0].reason}")
    now_ms = time.time_ns() // 1_000_000
    position = Position(0, 0, snapshot.position - 1, snapshot.log_ms, now_ms, -1, 0, 0)
    await sink.write_positions([position])
    snapshot.confirm("flush")
    return snapshot.unflushed


def measure(client: Client, door: tuple[str, int], load: Load, build: int) -> Cost:
    """Raises WrongAnswerError if ClickHouse does not hold what was sent."""
    shard, rng = Shard(0), np.random.default_rng(build)
    batches = [increments(load, second, rng) for second in range(load.seconds)]
    sink, flushed = ClickHouseSink(ClickHouseAddress(door[0]), build, "main"), 0
    before_s, worker_s = cpu_s(door[1]), 0.0
    with closing(sink):
        for records in batches:
            decode_and_absorb(shard, records)
            began_s = time.process_time()
            flushed += asyncio.run(flush(shard, sink))
            worker_s += time.process_time() - began_s
    merged = "SELECT count() = 0 FROM system.merges"
    wait_until(lambda: bool(client.command(merged)), "merges are done", timeout_s=MERGES_TIMEOUT_S)
    spent_s = cpu_s(door[1]) - before_s
    client.command("OPTIMIZE TABLE tally.cells_1m FINAL")
    of_build = f"FROM tally.cells_1m WHERE build = {build}"
    [(cells, total)] = client.query(f"SELECT count(), sum(p) {of_build}").result_rows
    if total != load.rate * load.seconds:
        raise WrongAnswerError(f"{load.name}: {total} instead of {load.rate * load.seconds}")
    on_disk = client.command(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'cells_1m' "
        f"AND startsWith(partition, '({build},')"
    )
    size = int(str(on_disk))
    return Cost(load.name, load.seconds, flushed, cells, worker_s, spent_s, size)


def print_costs(costs: Sequence[Cost]) -> None:
    """The last is the small one, by which the others' cells are told apart from their flushes."""
    small = costs[-1]
    print(f"{'':<32}{'CPU ms a flush':>22}{'CPU s a million cells':>26}")
    heads = ("cells/flush", "ClickHouse", "worker", "ClickHouse", "worker", "bytes/cell")
    print(f"{'':<20}" + "".join(f"{head:>12}" for head in heads))
    for one in costs:
        cells = one.cells_per_flush
        line = f"{one.name:<20}{cells:>12,.0f}{one.clickhouse_ms:>12.1f}{one.worker_ms:>12.1f}"
        if one is not small:
            clickhouse_s = per_million(one.clickhouse_ms, small.clickhouse_ms, cells)
            worker_s = per_million(one.worker_ms, small.worker_ms, cells)
            line += f"{clickhouse_s:>12.2f}{worker_s:>12.2f}{one.bytes_on_disk / one.cells:>12.1f}"
        print(line)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rate", type=int, default=20_000, help="increments/s; default 20000")
    options.add_argument("--seconds", type=int, default=120, help="of log time; default 120")
    options.add_argument("--small", type=int, default=300, help="small flushes; default 300")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    loads = [
        Load("cells", given.rate, given.seconds, members=False),
        Load("cells and members", given.rate, given.seconds, members=True),
        Load("small", SMALL_RATE, given.small, members=False),
    ]
    with TemporaryDirectory(prefix="tally-bench-") as folder, clickhouse(Path(folder)) as door:
        client = clickhouse_connect.get_client(dsn=door[0])
        with closing(client):
            migrate(client)
            try:
                costs = [measure(client, door, load, n) for n, load in enumerate(loads, 1)]
            except WrongAnswerError as error:
                sys.exit(f"flush: {error}")
    print_costs(costs)
    write_json(given.json, "flush", {"costs": [asdict(one) for one in costs]})


if __name__ == "__main__":
    main()
