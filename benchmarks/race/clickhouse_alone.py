"""ClickHouse alone: JSONEachRow into a materialized view with sum and uniq, in chDB.

Run by the race as `python -m benchmarks.race.clickhouse_alone kafka|memory`. `kafka` is fed by a
confluent-kafka consumer, whose time counts; `memory` has the events in memory before its clock
starts, so it measures ClickHouse and nothing else. Settings, and why:

- inserts of 100,000 rows, each one block and one part: the most of the ten to a hundred
  thousand that the manual advises;
- a Null table before the view, so that events themselves are not stored, and no column for the
  region, which nobody asks for here: the parser reads past it;
- an insert's data lies in a file: of the ways into chDB, `send_insert` tells nobody of rows that
  it did not write, and data in the query itself is cut off when it is long;
- chunks of 1 MB for parallel parsing, so that both cores have some of every insert;
- two inserts at a time, each by a thread with a connection, while the consumer goes on.

The clock stops when the last insert has answered: its part is in place, and queries see it.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import chain
from typing import TYPE_CHECKING, Any

import chdb

from benchmarks.race.contract import task_of, write_result
from benchmarks.race.reading import batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

ROWS_AT_ONCE = 100_000
INSERTERS = 2

TABLES = (
    "CREATE DATABASE race",
    "CREATE TABLE race.events (counter String, delta Int64, at Int64, member String) ENGINE = Null",
    """
    CREATE TABLE race.counts (
        counter String, minute UInt32,
        net SimpleAggregateFunction(sum, Int64), members AggregateFunction(uniq, String)
    ) ENGINE = AggregatingMergeTree ORDER BY (counter, minute)
    """,
    """
    CREATE MATERIALIZED VIEW race.counting TO race.counts AS
    SELECT counter, toUInt32(intDiv(at, 60000)) AS minute,
        sum(delta) AS net, uniqStateIf(member, delta > 0) AS members
    FROM race.events GROUP BY counter, minute
    """,
)
INSERT = """
INSERT INTO race.events FROM INFILE '{path}' COMPRESSION 'none'
SETTINGS async_insert = 0, input_format_parallel_parsing = 1,
    min_chunk_bytes_for_parallel_parsing = 1048576, max_insert_block_size = 1048576,
    min_insert_block_size_rows = 1048576, min_insert_block_size_bytes = 268435456
FORMAT JSONEachRow
"""
COUNTS = """
SELECT concat(counter, ' ', toString(minute)), sum(net), uniqMerge(members)
FROM race.counts GROUP BY counter, minute FORMAT JSONCompactColumns
"""


def connect(data: Path) -> Any:
    """A connection to the engine on this folder, for one thread at a time."""
    return chdb.connect(str(data))  # type: ignore[no-untyped-call]  # chDB has no types


class Inserts:
    """Inserts by threads, each with a connection; so many under way as there are threads.

    Calls block, and raise RuntimeError with what the engine said of an insert that failed.
    """

    def __init__(self, data: Path, folder: Path) -> None:
        self._folder = folder
        self._free = [connect(data) for _ in range(INSERTERS)]
        self._threads = ThreadPoolExecutor(INSERTERS)
        self._under_way: set[Future[None]] = set()
        self._number = 0

    def add(self, lines: Sequence[bytes]) -> None:
        """Have these rows inserted; waits for another insert first if all threads have one."""
        if len(self._under_way) == INSERTERS:
            self._wait_for_one()
        self._number += 1
        path = self._folder / f"rows-{self._number}.json"
        self._under_way.add(self._threads.submit(self._insert, path, lines))

    def finish(self) -> None:
        """Wait until all rows are in."""
        while self._under_way:
            self._wait_for_one()

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._free:
            connection.close()

    def _wait_for_one(self) -> None:
        done, self._under_way = wait(self._under_way, return_when=FIRST_COMPLETED)
        for one in done:
            one.result()

    def _insert(self, path: Path, lines: Sequence[bytes]) -> None:
        path.write_bytes(b"\n".join(lines))
        connection = self._free.pop()
        try:
            connection.query(INSERT.format(path=path))
        finally:
            self._free.append(connection)
        path.unlink()


def in_large(small: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """The same events, as many at once as an insert takes; what is left over comes last."""
    gathered: list[bytes] = []
    for values in small:
        gathered += values
        if len(gathered) >= ROWS_AT_ONCE:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def main() -> None:
    if sys.argv[1:] not in (["kafka"], ["memory"]):
        sys.exit("usage: python -m benchmarks.race.clickhouse_alone kafka|memory")
    task, from_kafka = task_of(), sys.argv[1] == "kafka"
    data = task.folder / "engine"
    reader = connect(data)
    for statement in TABLES:
        reader.query(statement)
    inserts = Inserts(data, task.folder)
    read = batches(task)
    # Of Kafka's events the first batch is in hand when the clock starts; in memory, all are.
    first = next(read) if from_kafka else []
    large = in_large(chain([first], read))
    at_hand: Iterable[list[bytes]] = large if from_kafka else list(large)
    began_s, started_s = time.time(), time.perf_counter()
    for lines in at_hand:
        inserts.add(lines)
    inserts.finish()
    seconds = time.perf_counter() - started_s
    inserts.close()
    names, counts, uniques = json.loads(reader.query(COUNTS).bytes())
    reader.close()
    write_result(
        task.result,
        events=task.events - len(first),
        seconds=seconds,
        began_s=began_s,
        counts=dict(zip(names, map(int, counts), strict=True)),
        uniques=dict(zip(names, map(float, uniques), strict=True)),
    )


if __name__ == "__main__":
    main()
