"""Workers killed at random moments, also while they recover from the kill before."""

import random
from collections.abc import Callable

import pytest

from tests.integration.worker.scenarios import proved_by
from tests.integration.worker.site import Site
from tests.integration.worker.stream import Stream

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scenarios

DECLARED_BUILD = 1
"""The build that the views read, so that this scenario compares what people see."""


def three_kills(site: Site, seed: int) -> None:
    kill_at_random("three-kills", 3, site, seed)


@proved_by(three_kills)
def test_counts_are_exact_after_three_kills_at_random_moments(outcome: Callable[[], None]) -> None:
    outcome()


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_counts_are_exact_after_25_kills_at_random_moments(site: Site, seed: int) -> None:
    print(f"seed {seed}")
    kill_at_random("many-kills", 25, site, seed)


def kill_at_random(family: str, kills: int, site: Site, seed: int) -> None:
    """Two workers; a random one is killed and replaced, every other time before all is well."""
    chance = random.Random(seed)
    with Stream(site.kafka, family, seed) as stream:
        workers = [site.start_worker(DECLARED_BUILD) for _ in range(2)]
        for number in range(kills):
            if number % 2 == 0:
                site.wait_shared(workers)
            # Log progress decides, not a clock, so that a slow machine kills in the midst as well.
            stream.wait_for_more(chance.randrange(5, 100))
            victim = chance.randrange(2)
            workers[victim].kill()
            workers[victim] = site.start_worker(DECLARED_BUILD)
        site.wait_shared(workers)
        stream.finish()
        site.settle(DECLARED_BUILD)
        site.expect(DECLARED_BUILD, family, stream)
        site.stop(workers)
        site.expect(DECLARED_BUILD, family, stream)
