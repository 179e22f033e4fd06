"""Increments through the client while the broker dies and comes back: every window is exact.

Most come by `increment_many`, some by `increment` from two threads; with and without members, ids
and regions, additions and removals. The truth is kept by numpy and knows nothing of Tally.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray

from pipeline.producer import Producer, Receipt
from tests.integration.worker.offsets import committed, log_ends
from tests.integration.worker.site import make_topic
from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka, require_kafka
from tests.kit.processes import wait_until
from tests.kit.tally import RunningTally, tally_on

REGIONS = ("", "eu", "us")
COUNTERS = 300
MINUTES = 10
MEMBERS = 50_000
SINGLE_SHARE = 20
"""One of so many is given by `increment`, from two threads at a time."""

UNCONFIRMED_PIECES = 4
"""So many wait for Kafka's word at most, so that sending goes on over all of the test."""

WRITES = 40
"""After so many, most of them increments, the embedded log dies."""

PATIENCE_S = 300
COUNTED_TIMEOUT_S = 600

Integers = NDArray[np.int64]
Windows = dict[tuple[str, str, int], int]


class Increments:
    """Seeded increments in pieces, as columns, and what their counts must be."""

    def __init__(self, seed: int, now_ms: int) -> None:
        self._chance = np.random.default_rng(seed)
        self._first_minute = now_ms // 60_000 - MINUTES
        self._names = pa.array([f"restarts:post-{number}" for number in range(COUNTERS)])
        self._members = pa.array([f"user-{number}" for number in range(MEMBERS)])
        self._ids = 0
        self._added = np.zeros((COUNTERS, len(REGIONS), MINUTES), np.int64)
        self._touched = np.zeros(self._added.shape, np.bool_)

    def piece(self, rows: int) -> pa.Table:
        """The next so many. They are in the truth from now on."""
        draw = self._chance
        counter = np.minimum(draw.zipf(1.3, rows) - 1, COUNTERS - 1)
        region, minute = draw.integers(0, len(REGIONS), rows), draw.integers(0, MINUTES, rows)
        delta = draw.integers(1, 4, rows) * np.where(draw.random(rows) < 0.1, -1, 1)
        np.add.at(self._added, (counter, region, minute), delta)
        self._touched[counter, region, minute] = True
        at_ms = (self._first_minute + minute) * 60_000 + draw.integers(0, 60_000, rows)
        return pa.table(
            {
                "counter": self._names.take(counter),
                "delta": delta,
                "at": at_ms,
                "member": _some(self._members.take(draw.integers(0, MEMBERS, rows)), 0.5, draw),
                "region": pa.array(REGIONS).take(region),
                "id": _some(self._new_ids(rows), 0.2, draw),
            }
        )

    def windows(self) -> Windows:
        """By counter, region and the minute's start in seconds."""
        return {
            (self._names[c].as_py(), REGIONS[r], int(self._first_minute + m) * 60): int(
                self._added[c, r, m]
            )
            for c, r, m in zip(*np.nonzero(self._touched), strict=True)
        }

    def totals(self) -> dict[str, int]:
        """By counter."""
        sums, touched = self._added.sum((1, 2)), self._touched.any((1, 2))
        return {self._names[c].as_py(): int(sums[c]) for c in np.flatnonzero(touched)}

    def _new_ids(self, rows: int) -> pa.Array:
        numbers = pa.array(np.arange(self._ids, self._ids + rows)).cast(pa.string())
        self._ids += rows
        return pc.binary_join_element_wise("like", numbers, "-")


def _some(texts: pa.Array, share: float, draw: np.random.Generator) -> pa.Array:
    """A share of them; the others are null."""
    return pc.if_else(pa.array(draw.random(len(texts)) < share), texts, None)


class Sending:
    """Gives increments to a producer, in a thread of its own."""

    def __init__(self, producer: Producer, increments: Increments, rows: int) -> None:
        self._producer = producer
        self._increments = increments
        self._rows = rows
        self._rows_at_once = min(50_000, rows // 40)
        self._unconfirmed: deque[Receipt] = deque()
        self._thread = ThreadPoolExecutor(1)
        self._pair = ThreadPoolExecutor(2)
        self.accepted = 0
        self._done = self._thread.submit(self._run)

    def wait_for(self, rows: int) -> None:
        """Block until so many were accepted; raises what sending raised."""
        wait_until(
            lambda: self.accepted >= rows or self._done.done(),
            f"{rows} increments are accepted",
            timeout_s=PATIENCE_S,
        )
        if self._done.done():
            self._done.result()

    def finish(self) -> None:
        """Block until all were accepted; raises what sending raised."""
        self._done.result(PATIENCE_S)
        self._thread.shutdown()
        self._pair.shutdown()

    def _run(self) -> None:
        while (left := self._rows - self.accepted) > 0:
            table = self._increments.piece(min(left, self._rows_at_once))
            half = table.num_rows // SINGLE_SHARE // 2
            one_by_one = [table.slice(0, half), table.slice(half, half)]
            singly = [self._pair.submit(self._give, part) for part in one_by_one]
            self._unconfirmed.append(self._producer.increment_many(table.slice(2 * half)))
            for each in singly:
                each.result()
            self.accepted += table.num_rows
            if len(self._unconfirmed) > UNCONFIRMED_PIECES:
                self._unconfirmed.popleft().places(PATIENCE_S)

    def _give(self, table: pa.Table) -> None:
        columns: dict[str, list[Any]] = table.to_pydict()
        for values in zip(*columns.values(), strict=True):
            self._producer.increment(**dict(zip(columns, values, strict=True)))


@contextmanager
def running(kind: str, folder: Path) -> Iterator[tuple[Broker, RunningTally]]:
    """A broker, a ClickHouse and a worker."""
    broker: Broker = RealKafka(folder / "log") if kind == "kafka" else EmbeddedLog(folder / "log")
    broker.start()
    try:
        make_topic(broker.bootstrap)
        with tally_on(broker, folder) as tally:
            yield broker, tally
    finally:
        broker.kill()


def prove(kind: str, folder: Path, rows: int, kills: int) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    increments = Increments(seed, time.time_ns() // 1_000_000)
    untold = threading.Event()
    with running(kind, folder) as (broker, tally):
        with Producer(
            broker.bootstrap, delivery_timeout=PATIENCE_S, on_unknown=lambda _: untold.set()
        ) as producer:
            sending = Sending(producer, increments, rows)
            for number in range(kills):
                sending.wait_for(rows * (number + 1) // (kills + 2))
                crash(broker, badly=number % 2 == 0)
            sending.finish()
        assert (producer.stored, producer.unknown, untold.is_set()) == (rows, 0, False)
        wait_until_counted(broker.bootstrap)
        compare(tally, increments)


def crash(broker: Broker, *, badly: bool) -> None:
    """Kill the broker, and have it back; badly, it also dies with a batch stored and not answered.

    Only the embedded log can be told when to die.
    """
    broker.kill()
    if badly and isinstance(broker, EmbeddedLog):
        broker.start(fault=f"after-write:{WRITES}")
        wait_until(lambda: not broker.running, "death after a write", timeout_s=PATIENCE_S)
    broker.start()


def wait_until_counted(kafka: str) -> None:
    ends = log_ends(kafka)
    wait_until(
        lambda: all(at >= end for at, end in zip(committed(kafka, 1), ends, strict=True)),
        f"the worker checkpoints up to {ends}",
        timeout_s=COUNTED_TIMEOUT_S,
        poll_s=0.3,
    )


def compare(tally: RunningTally, increments: Increments) -> None:
    rows = tally.rows(
        "SELECT counter, region, toUnixTimestamp(window), toInt64(count) "
        "FROM tally.counts_by_region_1m"
    )
    found = {(counter, region, window_s): count for counter, region, window_s, count in rows}
    assert len(found) == len(rows)
    expected = increments.windows()
    wrong = {
        key: (expected.get(key), found.get(key))
        for key in expected.keys() | found.keys()
        if expected.get(key) != found.get(key)
    }
    assert not wrong, f"{len(wrong)} windows differ (expected, found): {dict([*wrong.items()][:5])}"
    totals = dict(tally.rows("SELECT counter, toInt64(net) FROM tally.totals"))
    assert totals == increments.totals()
    assert tally.rows("SELECT sum(duplicates) FROM tally.cells_1m") == [(0,)]
    assert tally.rows("SELECT count() FROM tally.dead_letters") == [(0,)]


@pytest.mark.timeout(300)
def test_increments_are_counted_once_though_the_broker_dies(tmp_path: Path) -> None:
    prove("embedded", tmp_path, rows=200_000, kills=1)


@pytest.mark.prove
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_ten_million_increments_are_counted_once_though_the_broker_dies(
    kind: str, tmp_path: Path
) -> None:
    if kind == "kafka":
        require_kafka()
    prove(kind, tmp_path, rows=10_000_000, kills=8)
