"""Workers come and go in good order."""

from collections.abc import Callable

import pytest

from tests.integration.worker.offsets import committed, log_ends
from tests.integration.worker.scenarios import ONE_BROKER, proved_by
from tests.integration.worker.site import Site
from tests.integration.worker.stream import Stream

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scenarios

FAMILY = "sharing"


def come_and_go(site: Site, seed: int) -> None:
    """Two workers, a third joins, two leave, the last one stops and another goes on."""
    build = site.new_build()
    with Stream(site.kafka, FAMILY, seed) as stream:
        first, second = site.start_worker(build), site.start_worker(build)
        site.wait_shared([first, second])
        third = site.start_worker(build)
        site.wait_shared([first, second, third])
        site.stop([second])
        site.wait_shared([first, third])
        site.stop([first])
        site.wait_shared([third])
        # Until it has counted again what was flushed but not checkpointed before the rebalance.
        site.settle(build)
        stream.wait_for_more(40)
        site.stop([third])
        assert_nothing_is_read_again(site, build)
        stream.wait_for_more(30)
        last = site.start_worker(build)
        last.wait_ready()
        stream.finish()
        site.settle(build)
        site.expect(build, FAMILY, stream)
        site.stop([last])
        assert_nothing_is_read_again(site, build)
        site.expect(build, FAMILY, stream)


@ONE_BROKER
@proved_by(come_and_go)
def test_workers_share_all_partitions_as_they_come_and_go_and_read_nothing_twice_after_a_stop(
    outcome: Callable[[], None],
) -> None:
    outcome()


def assert_nothing_is_read_again(site: Site, build: int) -> None:
    """What is flushed is committed, partition by partition, and the log holds no less."""
    flushed = {shard: flushed for shard, (flushed, _) in site.positions(build).items()}
    at = committed(site.kafka, build)
    assert flushed == dict(enumerate(at))
    assert all(end >= done for end, done in zip(log_ends(site.kafka), at, strict=True))
