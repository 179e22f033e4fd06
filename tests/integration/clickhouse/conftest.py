"""One embedded ClickHouse for all tests of this folder, and a database of its own for each."""

from collections.abc import Iterator
from itertools import count

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client

from tests.integration.clickhouse.process import ClickHouse

_numbers = count()


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as process:
        yield process


@pytest.fixture
def database(door: ClickHouse) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    door.rows(f"CREATE DATABASE {name}")
    yield name
    door.rows(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture
def client(door: ClickHouse, database: str) -> Iterator[Client]:
    """clickhouse-connect's ordinary HTTP client."""
    found = clickhouse_connect.get_client(
        host=door.host, port=door.port, database=database, dedicated_pool=True
    )
    yield found
    found.close()
