"""A worker that dies between any two steps of a flush or a checkpoint loses and doubles nothing."""

import re
from collections.abc import Callable

import pytest

from tests.integration.worker.offsets import members
from tests.integration.worker.scenarios import ONE_BROKER, proved_by
from tests.integration.worker.site import Site
from tests.integration.worker.stream import Stream
from tests.kit.processes import wait_until

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scenarios

# The count chooses a later occasion than the first, so that the worker has counted by then. The
# changelog's point is passed once for each partition, so its count falls between two of them.
IN_A_FLUSH = ("flush-cells:5", "flush-positions:5", "checkpoint-flushed:2")
IN_A_CHECKPOINT = ("checkpoint-dead-letters:2", "checkpoint-changelog:6", "checkpoint-committed:2")
DIED = 137


def die_in_a_flush(site: Site, seed: int) -> None:
    die_one_after_another("flush-faults", IN_A_FLUSH, site, seed)


def die_in_a_checkpoint(site: Site, seed: int) -> None:
    die_one_after_another("checkpoint-faults", IN_A_CHECKPOINT, site, seed)


@ONE_BROKER
@proved_by(die_in_a_flush)
def test_workers_that_die_in_a_flush_lose_and_double_nothing(outcome: Callable[[], None]) -> None:
    outcome()


@ONE_BROKER
@proved_by(die_in_a_checkpoint)
def test_workers_that_die_in_a_checkpoint_lose_and_double_nothing(
    outcome: Callable[[], None],
) -> None:
    outcome()


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", IN_A_FLUSH + IN_A_CHECKPOINT)
def test_a_worker_that_dies_again_and_again_at_one_point_loses_and_doubles_nothing(
    site: Site, seed: int, fault: str
) -> None:
    print(f"seed {seed}")
    die_one_after_another(f"only-{fault.partition(':')[0]}", (fault,) * 4, site, seed)


def die_one_after_another(family: str, faults: tuple[str, ...], site: Site, seed: int) -> None:
    """Two workers, one of which dies at a fault point, is replaced by one that dies at the next
    point, and at last by a clean one, under a stream that never rests."""
    build = site.new_build()
    with Stream(site.kafka, family, seed) as stream:
        survivor = site.start_worker(build)
        survivor.wait_ready()
        [survivor_id] = members(site.kafka, build)
        for fault in faults:
            dies_with_work(fault, site, build, survivor_id)
        replacement = site.start_worker(build)
        replacement.wait_ready()
        stream.wait_for_more(30)
        stream.finish()
        site.settle(build)
        site.expect(build, family, stream)
        site.stop([survivor, replacement])
        site.expect(build, family, stream)


def dies_with_work(fault: str, site: Site, build: int, survivor_id: str) -> None:
    """Start a worker that dies at a point, with partitions of its own and cells at stake."""
    before = set(members(site.kafka, build))
    faulty = site.start_worker(build, fault=fault)
    owned: dict[str, set[int]] = {}

    def is_dead() -> bool:
        # Its session ends ten seconds after it died, and who survives may have joined anew.
        owned.update({who: parts for who, parts in members(site.kafka, build).items() if parts})
        return not faulty.running

    wait_until(is_dead, f"it dies at {fault}", timeout_s=180, poll_s=0.3)
    assert faulty.exit_code == DIED, faulty.output()
    assert owned.keys() - before - {survivor_id}
    point = fault.partition(":")[0]
    line = rf"^fault point {point} with (\d+) cells at stake$"
    said = re.search(line, faulty.output(), re.MULTILINE)
    assert said is not None, faulty.output()
    assert int(said.group(1)) > 0
