"""Real workers, killed and frozen, on the embedded log and on a real Apache Kafka.

Scenarios wait for time-outs more than they compute, so those of all selected tests run some at a
time on one broker, each in a thread and in a build of its own; a test then asks for its outcome.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

import pytest

from tests.integration.worker.scenarios import Scenario, scenario_of
from tests.integration.worker.site import Site, fresh_site
from tests.kit.kafka import require_kafka

AT_ONCE = 4
"""How many scenarios run at a time; with more, their servers wait for the cores in a long queue."""

OUTCOME_TIMEOUT_S = 1800
"""Longer than any test's own time-out, which is the one that holds."""


@pytest.fixture(
    scope="package", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)]
)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """One broker and one ClickHouse for all scenarios that leave the log whole."""
    if request.param == "kafka":
        require_kafka()
    with fresh_site(request.param, tmp_path_factory.mktemp(f"site-{request.param}")) as shared:
        yield shared


@pytest.fixture(scope="package")
def seed() -> int:
    """A new seed each time."""
    return random.SystemRandom().randrange(1 << 32)


@pytest.fixture(scope="package")
def running(
    request: pytest.FixtureRequest, site: Site, seed: int
) -> Iterator[Mapping[Scenario, "Future[None]"]]:
    """The scenarios of all selected tests on this broker, in the tests' order."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    found = [scenario_of(test.function) for test in tests if site.broker.name == broker_of(test)]
    scenarios = [scenario for scenario in dict.fromkeys(found) if scenario is not None]
    threads = ThreadPoolExecutor(max_workers=AT_ONCE)
    try:
        yield {scenario: threads.submit(scenario, site, seed) for scenario in scenarios}
    finally:
        # A scenario whose test ran out of time is not waited for again.
        threads.shutdown(wait=False, cancel_futures=True)


def broker_of(test: pytest.Function) -> object:
    """Which broker a test runs on, if it runs on one of the two."""
    return test.callspec.params.get("site") if hasattr(test, "callspec") else None


@pytest.fixture
def outcome(
    request: pytest.FixtureRequest, running: Mapping[Scenario, "Future[None]"], seed: int
) -> Callable[[], None]:
    """Waits for this test's scenario and raises what it raised. A failure shows the seed."""
    print(f"seed {seed}")
    mine = running[cast("Scenario", scenario_of(request.function))]
    return lambda: mine.result(OUTCOME_TIMEOUT_S)
