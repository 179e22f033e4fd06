"""One contract, two brokers: these tests run on the embedded log and on a real Apache Kafka."""

from collections.abc import Iterator

import pytest

from tests.integration.log.clients import Clients
from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka, require_kafka


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips from one place, so that all skips together make one line of the report."""
    if item.get_closest_marker("kafka"):
        require_kafka()


@pytest.fixture(
    scope="package", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)]
)
def shared_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """One broker for all tests; they keep apart by topic and group names of their own."""
    broker: Broker
    folder = tmp_path_factory.mktemp(f"log-{request.param}")
    broker = RealKafka(folder) if request.param == "kafka" else EmbeddedLog(folder)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    """The shared broker, started again if the test before left it dead."""
    if not shared_broker.running:
        shared_broker.start()
    return shared_broker


@pytest.fixture
def clients(broker: Broker) -> Iterator[Clients]:
    """Makes clients of the broker under test and closes them all afterwards, also on failure."""
    with Clients(broker.bootstrap) as made:
        yield made
