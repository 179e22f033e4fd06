"""One embedded ClickHouse for all tests of this folder; its database is made anew for each."""

from collections.abc import Iterator

import clickhouse_connect
import pytest

from schemas.migrate import migrate
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import Site


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as process:
        yield process


@pytest.fixture
def site(door: ClickHouse) -> Iterator[Site]:
    client = clickhouse_connect.get_client(
        host=door.host, port=door.port, autogenerate_session_id=False, dedicated_pool=True
    )
    client.command("DROP DATABASE IF EXISTS tally SYNC")
    migrate(client)
    yield Site(client)
    client.close()
