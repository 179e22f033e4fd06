"""One embedded log with four days in it, and one ClickHouse, whose tables are filled anew."""

from collections.abc import Iterator

import clickhouse_connect
import pytest

from schemas.records import Records
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.reconcile.site import Site, produce
from tests.kit.embedded import EmbeddedLog
from tests.kit.tables import empty_tables


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as process:
        yield process


@pytest.fixture(scope="package")
def log(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedLog, list[Records]]]:
    broker = EmbeddedLog(tmp_path_factory.mktemp("log"))
    broker.start()
    try:
        yield broker, produce(broker.bootstrap)
    finally:
        broker.kill()


@pytest.fixture
def site(door: ClickHouse, log: tuple[EmbeddedLog, list[Records]]) -> Iterator[Site]:
    """The four days, counted."""
    client = clickhouse_connect.get_client(
        host=door.host, port=door.port, autogenerate_session_id=False, dedicated_pool=True
    )
    empty_tables(client)
    broker, records = log
    made = Site(client, broker.bootstrap, f"http://{door.host}:{door.port}", records)
    made.count()
    yield made
    client.close()
