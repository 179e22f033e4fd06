"""One embedded ClickHouse for all tests of this folder; its tables are empty for each."""

from collections.abc import Iterator

import clickhouse_connect
import pytest

from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import Site
from tests.kit.tables import empty_tables


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as process:
        yield process


@pytest.fixture
def site(door: ClickHouse) -> Iterator[Site]:
    client = clickhouse_connect.get_client(
        host=door.host, port=door.port, autogenerate_session_id=False, dedicated_pool=True
    )
    empty_tables(client)
    made = Site(client)
    yield made
    made.client.close()
