"""One running Tally for all tests of this folder; each has a family of its own."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.integration.adjustments.adjusting import Adjusting
from tests.integration.rollup.conftest import door, site
from tests.kit.embedded import EmbeddedLog
from tests.kit.tally import tally_on

__all__ = ["adjusting", "door", "running", "site"]

SETTINGS = {
    "TALLY_PARTITIONS": "2",
    "TALLY_FLUSH_INTERVAL_S": "0.1",
    "TALLY_CHECKPOINT_INTERVAL_S": "0.5",
    "TALLY_HEARTBEAT_INTERVAL_S": "0.5",
    "TALLY_ROLLUP_INTERVAL_S": "1",
}
RULES = """
[families.sketchy]
kind = "sketched"
[families.nowhere]
regions = false
"""

_numbers = itertools.count()


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adjusting]:
    folder = tmp_path_factory.mktemp("adjustments")
    (folder / "tally.toml").write_text(RULES)
    broker = EmbeddedLog(folder / "log")
    broker.start()
    settings = {**SETTINGS, "TALLY_CONFIG": str(folder / "tally.toml")}
    try:
        with tally_on(broker, folder, settings=settings) as tally:
            yield Adjusting(tally, folder, broker)
    finally:
        broker.kill()


@pytest.fixture
def adjusting(running: Adjusting) -> Adjusting:
    """Counters of a family that no other test has."""
    return replace(running, family=f"family{next(_numbers)}")
