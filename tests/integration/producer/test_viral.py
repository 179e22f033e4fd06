"""A counter goes viral and calms down: split, spread and merged again, and every count exact."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks._counted import Counted
from benchmarks._log_rows import LogRows, Seen
from benchmarks._viral_load import VIRAL, Load
from pipeline.planning.following import PlanFollower
from pipeline.producer import Producer
from schemas.addresses import KafkaAddress
from tests.kit.tally import RunningTally, tally_alone

PARTITIONS = 8
LOW, HIGH = 20, 2_000
"""Increments a second of the counter. A producer reports 100 and more."""

SETTINGS = {
    "TALLY_PARTITIONS": str(PARTITIONS),
    "TALLY_SHARD_RATE_MAX": "200",
    "TALLY_SHARD_COOL_S": "1",
    "TALLY_FLUSH_INTERVAL_S": "0.3",
}
ENOUGH_ROWS = 2_000
"""Of so many rows the busiest partition's share is no matter of chance."""

PATIENCE_S = 100
TURN_S = 0.05


@pytest.fixture
def tally(tmp_path: Path) -> Iterator[RunningTally]:
    with tally_alone(tmp_path, SETTINGS) as running:
        yield running


def send_until(load: Load, rate: float, holds: Callable[[], object], what: str) -> None:
    """Send at a rate until something holds; fail the test when that takes too long."""
    began_s = last_s = time.monotonic()
    while not holds():
        now_s = time.monotonic()
        assert now_s - began_s < PATIENCE_S, f"did not happen: {what}"
        load.turn(rate, now_s - last_s)
        last_s = now_s
        time.sleep(TURN_S)


class Spread:
    """How the counter's newest rows in the log are spread over partitions."""

    def __init__(self, rows: LogRows) -> None:
        self._rows = rows
        self._seen: list[Seen] = []

    def busiest(self, newest: int) -> float:
        """The busiest partition's share of so many rows; NaN while there are fewer."""
        self._seen += self._rows.read(0)
        found = np.zeros(PARTITIONS, np.int64)
        for one in reversed(self._seen):
            found[one.partition] += one.watched
            if found.sum() >= newest:
                return float(found.max() / found.sum())
        return float("nan")


@pytest.mark.timeout(300)
def test_a_viral_counter_is_split_spread_and_merged_and_counted_exactly(
    tally: RunningTally,
) -> None:
    with ExitStack() as stack:
        follower = PlanFollower(KafkaAddress(tally.kafka))
        follower.start()
        stack.callback(follower.stop)
        rows = stack.enter_context(closing(LogRows(tally.kafka, PARTITIONS, VIRAL)))
        counted = stack.enter_context(closing(Counted(tally.clickhouse)))
        spread = Spread(rows)

        def has(shards: int) -> bool:
            return follower.plan.shards_of(VIRAL) == shards

        with Producer(tally.kafka) as one, Producer(tally.kafka) as other:
            load = Load([one.increment_many, other.increment_many], others_rate=300)
            send_until(load, LOW, lambda: spread.busiest(20) == 1, "it is on one partition")
            assert has(1)
            send_until(load, HIGH, lambda: has(PARTITIONS), "it is split")
            send_until(
                load,
                HIGH,
                lambda: spread.busiest(ENOUGH_ROWS) < 1.5 / PARTITIONS,
                "its rows are spread",
            )
            send_until(load, LOW, lambda: has(1), "it is merged")
            send_until(load, LOW, lambda: spread.busiest(20) == 1, "it is on one partition again")
        counted.wait(rows.ends(), PATIENCE_S)
        counted.check(load.windows, load.duplicates)
    assert load.duplicates > 0
