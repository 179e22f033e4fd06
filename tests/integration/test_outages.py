"""A ClickHouse that is frozen, killed or refuses cells: counting goes on by itself, exactly."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
)

from tests.integration.log.wire import Wire
from tests.kit.door import Door
from tests.kit.embedded import EmbeddedLog
from tests.kit.odd_headers import odd_batch
from tests.kit.processes import Process, wait_until
from tests.kit.tally import RunningTally, tally_on

TOPIC, DEAD_LETTERS = "tally.increments", "tally.dead-letters"
ROWS_MAX = 200
PATIENCE_S = 90
SETTINGS = {
    "TALLY_UNFLUSHED_ROWS_MAX": str(ROWS_MAX),
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    "TALLY_PARTITIONS": "4",
}
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLog]:
    with fresh_log(tmp_path_factory.mktemp("log")) as log:
        yield log


@contextmanager
def fresh_log(folder: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(folder)
    log.start()
    try:
        yield log
    finally:
        log.kill()


@pytest.fixture(scope="module")
def tally(broker: EmbeddedLog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    with tally_on(broker, tmp_path_factory.mktemp("tally"), settings=SETTINGS) as running:
        yield running


@pytest.fixture
def worker(tally: RunningTally) -> Iterator[Process]:
    """The one worker, which must outlive the test."""
    [only] = tally.workers
    yield only
    assert only.running, only.output()


@pytest.fixture
def door(tally: RunningTally) -> Iterator[Door]:
    """The ClickHouse, which runs again after the test, whatever came of it."""
    assert tally.door is not None
    yield tally.door
    tally.door.thaw()
    if not tally.door.process.running:
        tally.door.start()


@dataclass
class Stream:
    """Events of one family, and what they add up to."""

    tally: RunningTally
    family: str
    sums: Counter[str] = field(default_factory=Counter)

    def send(self, events: int, keys: int = 7) -> None:
        """Return when so many events are in the log."""
        producer = Producer({"bootstrap.servers": self.tally.kafka, "linger.ms": 2})
        for number in range(events):
            counter, delta = f"{self.family}:{number % keys}", 1 + number % 3
            self.sums[counter] += delta
            event = {"counter": counter, "delta": delta}
            producer.produce(TOPIC, json.dumps(event).encode(), partition=number % 4)
        assert producer.flush(30) == 0

    def expect(self) -> None:
        """Wait until ClickHouse has exactly these counts."""
        self.tally.wait_for(
            "SELECT counter, toInt64(net) FROM tally.totals "
            f"WHERE startsWith(counter, '{self.family}:') ORDER BY counter",
            sorted(self.sums.items()),
            timeout_s=PATIENCE_S,
        )


def wait_for_new_line(worker: Process, text: str, lines_before: int) -> None:
    wait_until(
        lambda: worker.output().count(text) > lines_before or not worker.running,
        f"the worker says {text!r} once more",
        timeout_s=PATIENCE_S,
        poll_s=0.1,
    )
    assert worker.running, worker.output()


def pauses(worker: Process) -> int:
    return worker.output().count("reading pauses: ")


def test_a_frozen_clickhouse_pauses_reading_which_goes_on_by_itself(
    tally: RunningTally, worker: Process, door: Door
) -> None:
    stream = Stream(tally, "frozen")
    stream.send(50)
    stream.expect()
    freeze(stream, worker, door, frozen_s=0)


@pytest.mark.prove
def test_a_clickhouse_that_is_frozen_for_longer_than_every_time_out_costs_nothing(
    tally: RunningTally, worker: Process, door: Door
) -> None:
    freeze(Stream(tally, "frozen-long"), worker, door, frozen_s=100)
    assert "does not answer" in worker.output()


@pytest.mark.prove
def test_a_worker_that_waits_takes_over_from_one_that_dies_meanwhile(tmp_path: Path) -> None:
    with fresh_log(tmp_path / "log") as own, tally_on(own, tmp_path, 2, SETTINGS) as tally:
        lost, kept = tally.workers
        assert tally.door is not None
        wait_for_new_line(lost, "worker ready: 2 partitions", 0)
        stream = Stream(tally, "shared")
        stream.send(50)
        stream.expect()
        tally.door.freeze()
        stream.send(6 * ROWS_MAX)
        wait_for_new_line(lost, "reading pauses: ", 0)
        wait_for_new_line(kept, "reading pauses: ", 0)
        lost.kill()
        wait_for_new_line(kept, "worker ready: 4 partitions", 0)
        stream.send(6 * ROWS_MAX)
        tally.door.thaw()
        stream.expect()


def freeze(stream: Stream, worker: Process, door: Door, frozen_s: float) -> None:
    before = pauses(worker)
    door.freeze()
    stream.send(3 * ROWS_MAX)
    wait_for_new_line(worker, "reading pauses: ", before)
    stream.send(3 * ROWS_MAX)
    time.sleep(frozen_s)
    assert worker.running, worker.output()
    door.thaw()
    stream.expect()
    wait_for_new_line(worker, "reading goes on after ", before)


def test_a_killed_clickhouse_pauses_reading_which_goes_on_when_it_is_back(
    tally: RunningTally, worker: Process, door: Door
) -> None:
    stream = Stream(tally, "killed")
    stream.send(50)
    stream.expect()
    before = pauses(worker)
    door.kill()
    stream.send(3 * ROWS_MAX)
    wait_for_new_line(worker, "reading pauses: ", before)
    wait_for_new_line(worker, "does not answer", 0)
    stream.send(3 * ROWS_MAX)
    door.start()
    stream.expect()
    wait_for_new_line(worker, "reading goes on after ", before)
    wait_for_new_line(worker, "writing goes on after ", 0)


def test_cells_that_clickhouse_refuses_are_set_aside_and_all_others_go_on(
    tally: RunningTally, worker: Process
) -> None:
    stream = Stream(tally, "poison")
    stream.send(50)
    stream.expect()
    bad = "poison:3"
    client = tally.client()
    client.command(f"ALTER TABLE tally.cells_1m ADD CONSTRAINT poison CHECK counter != '{bad}'")
    try:
        known = stream.sums[bad]
        stream.send(2 * ROWS_MAX)
        stream.sums[bad], real = known, stream.sums[bad]
        stream.expect()
        wait_for_new_line(worker, "are set aside as dead letters", 0)
        wait_until_checkpointed(tally)
        [(letters, reason)] = tally.rows(
            "SELECT count(), any(reason) FROM tally.dead_letters WHERE row < 0"
        )
        assert letters >= 4, "one for each shard"
        assert reason.startswith("ClickHouse refused this cell: ")
        assert "poison" in reason
    finally:
        client.command("ALTER TABLE tally.cells_1m DROP CONSTRAINT poison")
    # What was set aside is not lost: the letters are rows of the table, and absolute values.
    cells = [value for row, value in dead_letters(tally.kafka) if row < 0]
    assert {json.loads(cell)["counter"] for cell in cells} == {bad}
    rows = b"\n".join(cells)
    client.raw_insert("tally.cells_1m", insert_block=rows, fmt="JSONEachRow")
    client.close()
    stream.sums[bad] = real
    stream.expect()
    stream.send(50)
    stream.expect()


def wait_until_checkpointed(tally: RunningTally) -> None:
    """Block until the checkpoints of all shards are past what is in the log now."""
    lasts = [log_end(tally.kafka, shard) - 1 for shard in range(4)]
    reached = " OR ".join(f"(shard = {shard} AND at >= {at})" for shard, at in enumerate(lasts))
    query = "SELECT shard, max(checkpoint_through) AS at FROM tally.positions GROUP BY shard"
    tally.wait_for(f"SELECT count() FROM ({query}) WHERE {reached}", [(4,)], timeout_s=PATIENCE_S)


def dead_letters(kafka: str) -> list[tuple[int, bytes]]:
    """Row and value of every dead letter in the topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "looks", "log_level": 0})
    found: list[tuple[int, bytes]] = []
    try:
        start = TopicPartition(DEAD_LETTERS, 0, 0)
        _, end = consumer.get_watermark_offsets(start, timeout=20)
        consumer.assign([start])
        while len(found) < end:
            record = consumer.poll(20)
            assert record is not None
            assert record.error() is None
            headers = dict(record.headers() or [])
            row = headers["tally-row"]
            assert isinstance(row, bytes)
            found.append((int(row), bytes(record.value() or b"")))
    finally:
        consumer.close()
    return found


def test_a_record_whose_header_name_is_no_text_is_counted_like_any_other(
    tally: RunningTally, worker: Process
) -> None:
    values = [json.dumps({"counter": f"odd:{number % 2}"}).encode() for number in range(5)]
    with Wire(tally.kafka) as wire:
        assert wire.produce(TOPIC, odd_batch(*values, odd=2))[0] == 0
    stream = Stream(tally, "odd", Counter({"odd:0": 3, "odd:1": 2}))
    stream.expect()
    stream.send(20, keys=2)
    stream.expect()


def test_a_gap_in_the_log_ends_the_worker_and_status_tells_why(tmp_path: Path) -> None:
    with fresh_log(tmp_path / "log") as own, tally_on(own, tmp_path, settings=SETTINGS) as tally:
        [worker] = tally.workers
        assert tally.door is not None
        stream = Stream(tally, "gap")
        stream.send(50)
        status = "SELECT count() FROM tally.positions WHERE flushed_through >= 0"
        tally.wait_for(status, [(4,)], timeout_s=PATIENCE_S)
        # While reading pauses, more records come than the worker fetches ahead, and then they go.
        tally.door.freeze()
        stream.send(2 * ROWS_MAX)
        wait_for_new_line(worker, "reading pauses: ", 0)
        fill_beyond_what_is_fetched_ahead(tally.kafka)
        end = log_end(tally.kafka, 2)
        admin = AdminClient({"bootstrap.servers": tally.kafka, "log_level": 0})
        at = TopicPartition(TOPIC, 2, end - 1)
        admin.delete_records([at])[at].result(timeout=20)
        tally.door.thaw()
        assert worker.wait(timeout_s=PATIENCE_S) != 0
        told = "SELECT shard, match(reason, 'begins at') FROM tally.refusals"
        tally.wait_for(told, [(2, 1)])
        document = json.loads(tally.run("status", "--json", code=1).stdout)
        assert any("shard 2 is not counted on" in problem for problem in document["problems"])


def fill_beyond_what_is_fetched_ahead(kafka: str) -> None:
    producer = Producer({"bootstrap.servers": kafka, "message.max.bytes": 900_000})
    for _ in range(60):
        producer.produce(TOPIC, b"x" * 800_000, partition=2)
    assert producer.flush(30) == 0


def log_end(kafka: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "looks", "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=20)[1]
    finally:
        consumer.close()
