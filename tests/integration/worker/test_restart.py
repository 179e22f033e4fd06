"""The benchmark of restarts, in a short form: its counts must be exact after the restart."""

from collections.abc import Callable

import pytest

from benchmarks.restart import Place, measure
from tests.integration.worker.scenarios import ONE_BROKER, proved_by
from tests.integration.worker.site import Site

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scenarios

CELLS = 20_000


def restart_with_many_cells(site: Site, seed: int) -> None:
    folder = site.folder / "restart"
    folder.mkdir()
    place = Place(site.kafka, site.tally.clickhouse, folder, site.new_build())
    done = measure(place, CELLS)
    assert done.ready_s <= done.counted_s


@ONE_BROKER
@proved_by(restart_with_many_cells)
def test_twenty_thousand_cells_are_exact_after_a_kill_and_a_restart(
    outcome: Callable[[], None],
) -> None:
    outcome()
