"""Foreign producers with transactions: what is committed is counted, what is aborted is not."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from pipeline import topics
from pipeline.groupless import log_ends
from schemas.addresses import KafkaAddress
from tests.kit.kafka import RealKafka, require_kafka
from tests.kit.tally import RunningTally, tally_on

pytestmark = pytest.mark.kafka

PATIENCE_S = 60
SETTINGS = {
    "TALLY_PARTITIONS": "1",
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    # So that nothing comes behind the last transaction.
    "TALLY_HEARTBEAT_INTERVAL_S": "3600",
}


@pytest.fixture
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    require_kafka()
    folder = tmp_path_factory.mktemp("transactions")
    broker = RealKafka(folder / "log")
    broker.start()
    try:
        with tally_on(broker, folder, settings=SETTINGS) as running:
            yield running
    finally:
        broker.kill()


def send(producer: Producer, name: str, times: int) -> None:
    for _ in range(times):
        producer.produce(topics.INCREMENTS, json.dumps({"counter": f"bought:{name}"}), partition=0)
    producer.flush()


@pytest.mark.timeout(300)  # Java and a worker on two busy cores
def test_aborted_transactions_are_not_counted_and_committed_ones_are(tally: RunningTally) -> None:
    first, second = (
        Producer({"bootstrap.servers": tally.kafka, "transactional.id": name}) for name in "ab"
    )
    for producer in (first, second):
        producer.init_transactions()
        producer.begin_transaction()
    send(first, "aborted", 3)
    send(second, "committed", 4)
    send(first, "aborted", 2)
    first.abort_transaction()
    second.commit_transaction()
    first.begin_transaction()
    send(first, "after", 5)
    first.commit_transaction()
    send(Producer({"bootstrap.servers": tally.kafka}), "plain", 6)
    tally.wait_for(
        "SELECT counter, toInt64(total) FROM tally.totals "
        "WHERE startsWith(counter, 'bought:') ORDER BY counter",
        [("bought:after", 5), ("bought:committed", 4), ("bought:plain", 6)],
        timeout_s=PATIENCE_S,
    )

    # The end of a log that only transactions end is no other log, though it is younger than all
    # that was counted.
    time.sleep(0.01)
    first.begin_transaction()
    send(first, "aborted", 1)
    first.abort_transaction()
    end = log_ends(KafkaAddress(tally.kafka))[0]
    flushed = f"SELECT toInt64(max(flushed_through)) + 1 >= {end} FROM tally.positions"
    tally.wait_for(flushed, [(1,)], PATIENCE_S)
    tally.run_process("replay", "--new")
