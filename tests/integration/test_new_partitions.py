"""Reads know of new partitions before anything can be in them: they are not complete without."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline import topics
from pipeline.clickhouse import connect
from pipeline.clock import SystemClock
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.reads.as_of import COMPLETE_WITHIN_MS
from pipeline.reads.counts import CountAnswer, Question, count
from pipeline.reads.reads import Reads
from schemas.addresses import KafkaAddress
from tests.kit.clocks import ManualClock
from tests.kit.processes import wait_until
from tests.kit.tally import RunningTally, start_worker, tally_alone

BEFORE, AFTER = 2, 3
COUNTER = "likes:a"
SETTINGS = {
    "TALLY_PARTITIONS": str(BEFORE),
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
}


@pytest.fixture
def tally(tmp_path: Path) -> Iterator[RunningTally]:
    with tally_alone(tmp_path, SETTINGS) as running:
        yield running


def send(tally: RunningTally, partition: int, number: int) -> None:
    event = json.dumps({"counter": COUNTER}).encode()
    records = [LogRecord(topics.INCREMENTS, partition, event)] * number
    write_records(KafkaAddress(tally.kafka), records, SystemClock())


def read(reads: Reads) -> CountAnswer:
    return count(reads, Question(COUNTER), "exact", 60_000)


def wait_counted(reads: Reads, total: int) -> None:
    def is_counted() -> bool:
        answer = read(reads)
        return answer.complete and answer.total == total

    wait_until(is_counted, f"{total} and complete", poll_s=0.2)


@pytest.mark.timeout(240)  # two starts of a worker on two busy cores
def test_no_read_is_complete_without_a_new_partition_that_nobody_has_counted(
    tally: RunningTally, tmp_path: Path
) -> None:
    kafka = topics.admin_client(KafkaAddress(tally.kafka))
    # It reads all the time, and so remembers what it may.
    reads = Reads(connect(tally.clickhouse), SystemClock())
    send(tally, 0, 5)
    wait_counted(reads, 5)
    tally.workers[0].stop(timeout_s=90)
    stopped = ManualClock(time.time())

    seen: list[CountAnswer] = []
    with ThreadPoolExecutor(1) as beside:
        grown = beside.submit(tally.run_process, "partitions", str(AFTER))
        while not grown.done():
            partitions = topics.partition_counts(kafka)[topics.INCREMENTS]
            answer = read(reads)
            if partitions == AFTER:
                seen.append(answer)
            time.sleep(0.05)
        grown.result()
    send(tally, AFTER - 1, 7)
    seen.append(read(reads))

    assert [one for one in seen if one.complete] == []
    fresh = Reads(connect(tally.clickhouse), stopped)
    answer = read(fresh)
    assert (answer.total, answer.complete) == (5, False)
    # Not since the others are old: they are not.
    assert answer.staleness_ms is not None
    assert answer.staleness_ms < COMPLETE_WITHIN_MS

    tally.workers[0] = start_worker(tally, tmp_path / "again.txt")
    wait_counted(reads, 12)
