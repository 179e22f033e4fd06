"""kill -9 during a replay and during a swap: the old build or the new one, nothing in between."""

import pytest

from tests.integration.builds.conftest import FAMILY, REPLAY_TIMEOUT_S, Running
from tests.integration.builds.past import somebody_looks
from tests.kit.tally import START_TIMEOUT_S

pytestmark = pytest.mark.timeout(600)

KILLED = 137


def test_a_replay_that_is_killed_goes_on_and_one_whose_swap_dies_leaves_a_whole_build(
    running: Running,
) -> None:
    with somebody_looks(running.site, FAMILY):
        with running.replay(name="killed") as killed:
            counts = r"build 2 counts the whole log"
            killed.wait_for_line(counts, timeout_s=START_TIMEOUT_S)
            running.stream.wait_for_more(30)
            killed.kill()
        for point, live in (("swap-handed-over", 1), ("swap-carried", 1), ("swap-declared", 2)):
            with running.replay("--swap", fault=point, name=point) as dying:
                assert dying.wait(timeout_s=REPLAY_TIMEOUT_S) == KILLED, dying.output()
            assert running.live() == live
            assert all(worker.running for worker in running.workers)
            running.stream.wait_for_more(30)
    running.site.wait_shared(running.workers)
    running.stream.finish()
    running.expect_views_to_be_true()
    assert running.site.tally.rows("SELECT count() FROM tally.rebuilds") == [(1,)]
