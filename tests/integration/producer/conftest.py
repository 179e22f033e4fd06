"""Brokers for the producer's tests: the embedded log and a real Apache Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.control.shard_plan import keep_plan_with
from pipeline.rules import CountingRules
from schemas.addresses import KafkaAddress
from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka, require_kafka
from tests.kit.tally import RunningTally, tally_on

PARTITIONS = 8


@pytest.fixture(
    scope="package", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)]
)
def shared_log(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """One broker for all tests; they keep apart by counters of their own."""
    if request.param == "kafka":
        require_kafka()
    folder = tmp_path_factory.mktemp(f"producer-{request.param}")
    broker: Broker = RealKafka(folder) if request.param == "kafka" else EmbeddedLog(folder)
    broker.start()
    try:
        topics.ensure_topics(KafkaAddress(broker.bootstrap), 1, PARTITIONS)
        # As the first worker would leave it: producers ask how ids are routed.
        keep_plan = keep_plan_with(KafkaAddress(broker.bootstrap), SystemClock())
        keep_plan(CountingRules(version=1, id_partitions=PARTITIONS))
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def log(shared_log: Broker) -> Broker:
    """The broker, started again if the test before left it dead."""
    if not shared_log.running:
        shared_log.start()
    return shared_log


@pytest.fixture
def own_log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """An embedded log of one test, which may stop or kill it."""
    broker = EmbeddedLog(tmp_path)
    broker.start()
    try:
        topics.ensure_topics(KafkaAddress(broker.bootstrap), 1, PARTITIONS)
        yield broker
    finally:
        broker.kill()


@pytest.fixture(scope="package")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    """A whole Tally on an embedded log of its own; tests keep apart by families of their own."""
    folder = tmp_path_factory.mktemp("producer-tally")
    broker = EmbeddedLog(folder / "log")
    broker.start()
    try:
        settings = {
            "TALLY_PARTITIONS": "4",
            "TALLY_FLUSH_INTERVAL_S": "0.2",
            # Tests watch the log grow, which heartbeats would do as well.
            "TALLY_HEARTBEAT_INTERVAL_S": "3600",
        }
        with tally_on(broker, folder, settings=settings) as running:
            yield running
    finally:
        broker.kill()
