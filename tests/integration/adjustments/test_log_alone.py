"""The table is derived from the log alone: after kills, and by a build that counts it anew."""

from collections.abc import Mapping

import pytest

from tests.integration.adjustments.adjusting import Adjusting
from tests.kit.processes import Process, wait_until
from tests.kit.tally import RunningTally, start_worker

COLUMNS = (
    "counter, id, region, grain, window, `by`, who, why, before, after, at, log_time, shard, offset"
)


def rows_of(adjusting: Adjusting, build: int) -> set[tuple[object, ...]]:
    return set(
        adjusting.tally.rows(f"SELECT {COLUMNS} FROM tally.adjustments WHERE build = {build}")
    )


def flushed(adjusting: Adjusting, build: int) -> Mapping[int, int]:
    return dict(
        adjusting.tally.rows(
            "SELECT shard, max(flushed_through) FROM tally.positions "
            f"WHERE build = {build} GROUP BY shard"
        )
    )


@pytest.mark.timeout(180)
def test_each_adjustment_counts_once_when_workers_are_killed_and_a_new_build_has_the_same(
    adjusting: Adjusting,
) -> None:
    tally = adjusting.tally
    for number in range(12):
        tally.run("adjust", adjusting.counter(f"k{number % 3}"), "--by", "1", "--why", "x")
        if number == 5:
            # Some are flushed by now, and some of these not committed.
            tally.workers.pop().kill()
    tally.workers.append(start_worker(tally, adjusting.folder / "after-kill.txt"))
    expected = {"k0": 4, "k1": 4, "k2": 4}
    for name, total in expected.items():
        adjusting.wait_for_total(total, name)
    first = flushed(adjusting, 1)
    anew = RunningTally(
        tally.kafka, tally.clickhouse, settings={**tally.settings, "TALLY_BUILD": "2"}
    )
    worker: Process = start_worker(anew, adjusting.folder / "build-2.txt")
    try:
        wait_until(
            lambda: all(
                flushed(adjusting, 2).get(shard, -1) >= through for shard, through in first.items()
            ),
            "build 2 is as far as build 1 was",
            timeout_s=60,
        )
    finally:
        worker.kill()
    mine = {row for row in rows_of(adjusting, 1) if str(row[0]).startswith(adjusting.family)}
    assert len(mine) == 12
    assert mine <= rows_of(adjusting, 2) == rows_of(adjusting, 1)
    assert {name: adjusting.total(name) for name in expected} == expected
