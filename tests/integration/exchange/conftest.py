"""Two embedded ClickHouses for all tests of this folder; their tables are empty for each."""

from collections.abc import Iterator

import pytest

from tests.integration.exchange.site import Cluster
from tests.kit.door import Door


@pytest.fixture(scope="package")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Door, Door]]:
    here, there = (Door(tmp_path_factory.mktemp(name)) for name in ("here", "there"))
    try:
        for door in (here, there):
            door.start()
        yield here, there
    finally:
        for door in (here, there):
            door.kill()


@pytest.fixture
def clusters(doors: tuple[Door, Door]) -> Iterator[tuple[Cluster, Cluster]]:
    here, there = (Cluster.empty(door) for door in doors)
    yield here, there
    for cluster in (here, there):
        cluster.site.client.close()
