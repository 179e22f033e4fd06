"""A frozen worker loses its partitions, wakes up, and must not change a count."""

import signal
from collections.abc import Callable

import pytest

from tests.integration.worker.events import PARTITIONS
from tests.integration.worker.scenarios import proved_by
from tests.integration.worker.site import POLL_S, READY_TIMEOUT_S, Site, Worker
from tests.integration.worker.stream import Stream
from tests.kit.processes import wait_until

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scenarios


def one_zombie(site: Site, seed: int) -> None:
    freeze_and_wake("one-zombie", 1, site, seed)


@proved_by(one_zombie)
def test_a_worker_that_wakes_after_its_partitions_were_taken_over_changes_no_count(
    outcome: Callable[[], None],
) -> None:
    outcome()


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_workers_that_freeze_and_wake_again_and_again_change_no_count(
    site: Site, seed: int
) -> None:
    print(f"seed {seed}")
    freeze_and_wake("many-zombies", 8, site, seed)


def freeze_and_wake(family: str, times: int, site: Site, seed: int) -> None:
    """Freeze each of two workers in turn until the other has everything, then wake it."""
    build = site.new_build()
    with Stream(site.kafka, family, seed) as stream:
        frozen, other = site.start_worker(build), site.start_worker(build)
        for _ in range(times):
            site.wait_shared([frozen, other])
            stream.wait_for_more(40)
            frozen.send(signal.SIGSTOP)
            try:
                wait_owns_all(other)
                stream.wait_for_more(40)
            finally:
                frozen.send(signal.SIGCONT)
            frozen = woken(site, build, frozen, other)
            frozen, other = other, frozen
        stream.wait_for_more(30)
        stream.finish()
        site.settle(build)
        site.expect(build, family, stream)
        site.stop([frozen, other])
        site.expect(build, family, stream)


def wait_owns_all(worker: Worker) -> None:
    wait_until(
        lambda: worker.shares()[-1] == PARTITIONS or not worker.running,
        "the other worker takes everything over",
        timeout_s=READY_TIMEOUT_S,
        poll_s=POLL_S,
    )
    assert worker.running, worker.output()


def woken(site: Site, build: int, zombie: Worker, other: Worker) -> Worker:
    """The zombie once it shares again, or, if it ended, the one a supervisor starts instead."""
    takeovers = len(zombie.shares())
    wait_until(
        lambda: len(zombie.shares()) > takeovers or not zombie.running,
        "the zombie takes part again, or ends",
        timeout_s=READY_TIMEOUT_S,
        poll_s=POLL_S,
    )
    worker = zombie if zombie.running else site.start_worker(build)
    worker.wait_ready()
    site.wait_shared([worker, other])
    return worker
