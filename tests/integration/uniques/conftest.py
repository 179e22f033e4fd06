"""One embedded ClickHouse for all tests of this folder; its tables are empty for each."""

from collections.abc import Iterator
from datetime import timedelta

import clickhouse_connect
import pytest
from clickhouse_connect.driver import Client

from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import seconds
from tests.integration.uniques.members import (
    ABOUT,
    HOME,
    NOW_S,
    TODAY,
    Members,
    people,
)
from tests.kit.tables import empty_tables


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as process:
        yield process


@pytest.fixture
def client(door: ClickHouse) -> Iterator[Client]:
    made = clickhouse_connect.get_client(
        host=door.host, port=door.port, autogenerate_session_id=False, dedicated_pool=True
    )
    empty_tables(made)
    yield made
    made.close()


@pytest.fixture
def members(client: Client) -> Members:
    """Two pages, two regions, a day and a half; most visitors come again and again."""
    made = Members(client)
    visits = [(HOME, "eu", NOW_S, people(90_000, 5))]
    for hour in range(36):
        at_s = seconds(TODAY - timedelta(1)) + hour * 3600 + 600
        visits.append((HOME, "eu", at_s, people(hour * 40, 300)))
        visits.append((HOME, "us", at_s + 900, people(hour * 40 + 200, 150)))
        if hour % 5 == 0:
            some = people(hour * 40, 200) + people(50_000 + hour, 30)
            visits.append((ABOUT, "", at_s, some))
    made.write_all(visits)
    return made
