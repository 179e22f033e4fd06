"""These tests run on the embedded log and on a real Apache Kafka."""

from collections.abc import Iterator

import pytest

from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka, require_kafka


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker for the tests of a file, with nothing in it."""
    folder = tmp_path_factory.mktemp(f"planning-{request.param}")
    broker: Broker
    if request.param == "kafka":
        require_kafka()
        broker = RealKafka(folder)
    else:
        broker = EmbeddedLog(folder)
    broker.start()
    yield broker
    broker.kill()
