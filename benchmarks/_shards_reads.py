"""What the views cost for a counter with many shards, beside millions of other cells."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import clickhouse_connect

from benchmarks._kit import WrongAnswerError
from benchmarks._servers import clickhouse
from benchmarks.views import CHUNK, POSITIONS
from benchmarks.views import FILL as FILL_OTHERS
from pipeline.clock import SystemClock
from pipeline.rollup.rollup import Rollup
from schemas.families import Families
from schemas.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver import Client

PARTITIONS = 64
MINUTES = 1_440
SLOTS = 2
"""A window's increments come in its own minute of log time and, for the last of them, the next."""
_P_A_SLOT = 6_400
_WARM_UPS = 3

FILL_SPLIT = """
INSERT INTO tally.cells_1m
(build, counter, region, window, slot, replica, shard, p, n, duplicates, through)
SELECT
    1, 'split:{n}', '',
    toDateTime({until_s}, 'UTC') - INTERVAL 1 + number % {minutes} MINUTE AS window,
    window + INTERVAL intDiv(number, {minutes} * {n}) MINUTE,
    'main', (CRC32('split:{n}') + intDiv(number, {minutes}) % {n}) % {partitions},
    intDiv({p}, {n}), 0, 0, number
FROM numbers({minutes} * {n} * {slots})
"""
LAST_HOUR = (
    "SELECT sum(count) FROM tally.counts_1m WHERE counter = 'split:{n}' "
    "AND window >= toDateTime({until_s}, 'UTC') - INTERVAL 1 HOUR"
)
TOTAL = "SELECT total FROM tally.totals WHERE counter = 'split:{n}'"


@dataclass(frozen=True, slots=True)
class Read:
    """One question about a counter with n shards; `ratio` is to the same with one shard."""

    question: str
    shards: int
    ms: float
    least_ms: float
    ratio: float
    rows_read: int


def measure(shards: Sequence[int], cells: int, rounds: int) -> list[Read]:
    """Takes a server of its own. Raises WrongAnswerError if a count depends on the shards."""
    until_s = int(time.time()) // 60 * 60
    questions = {
        "the last hour, counts_1m": (LAST_HOUR, 60 * SLOTS * _P_A_SLOT),
        "all time, totals": (TOTAL, MINUTES * SLOTS * _P_A_SLOT),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        clickhouse(Path(folder)) as url,
        closing(clickhouse_connect.get_client(dsn=url, send_receive_timeout=300)) as client,
    ):
        migrate(client)
        _fill(client, shards, cells, until_s)
        return [
            read
            for name, (question, expected) in questions.items()
            for read in _ask(
                client,
                name,
                {n: question.format(n=n, until_s=until_s) for n in shards},
                expected,
                rounds,
            )
        ]


def _fill(client: Client, shards: Sequence[int], cells: int, until_s: int) -> None:
    """The cells, rolled up as a leader would have done, and merged as they are after a while."""
    for first in range(0, cells, CHUNK):
        count = min(CHUNK, cells - first)
        client.command(FILL_OTHERS.format(shards=PARTITIONS, first=first, count=count))
    split = {"minutes": MINUTES, "slots": SLOTS, "p": _P_A_SLOT, "partitions": PARTITIONS}
    for n in shards:
        client.command(FILL_SPLIT.format(n=n, until_s=until_s, **split))
    client.command(POSITIONS.format(shards=PARTITIONS))
    rollup = Rollup(client, 1, "main", Families(), SystemClock(), longest_query_s=3600)
    rollup.run(PARTITIONS)
    for table in ("cells_1m", "cells_1h", "cells_1d"):
        client.command(f"OPTIMIZE TABLE tally.{table} FINAL")


def _ask(
    client: Client, name: str, questions: dict[int, str], expected: int, rounds: int
) -> list[Read]:
    """Medians; the numbers of shards take turns. ClickHouse's cache of conditions is off."""
    times_ms: dict[int, list[float]] = {n: [] for n in questions}
    rows_read = {}
    for _ in range(rounds + _WARM_UPS):
        for n, question in questions.items():
            began_s = time.perf_counter()
            answer = client.query(question, settings={"use_query_condition_cache": 0})
            times_ms[n].append((time.perf_counter() - began_s) * 1000)
            rows_read[n] = int(answer.summary["read_rows"])
            [(count,)] = answer.result_rows
            if count != expected:
                raise WrongAnswerError(f"{name}, {n} shards: {count} instead of {expected}")
    counted = {n: taken[_WARM_UPS:] for n, taken in times_ms.items()}
    one = counted[min(questions)]
    return [
        Read(
            name,
            n,
            statistics.median(taken),
            min(taken),
            statistics.median(mine / its for mine, its in zip(taken, one, strict=True)),
            rows_read[n],
        )
        for n, taken in counted.items()
    ]
