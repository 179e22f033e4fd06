"""Live tables are spoiled, found different, and replaced, while events come in and people look."""

import json
import time

import pytest

from tests.integration.builds.conftest import DAYS, FAMILY, REPLAY_TIMEOUT_S, Running
from tests.integration.builds.past import somebody_looks
from tests.integration.worker.site import trim
from tests.kit.processes import wait_until

pytestmark = pytest.mark.timeout(600)

SPOILED = {
    "deleted": "DELETE FROM tally.cells_1m WHERE build = 1 AND counter = 'past:key-1' AND {old}",
    "doubled": (
        "INSERT INTO tally.cells_1m (build, counter, region, window, slot, replica, shard, p, n, "
        "duplicates, through) SELECT build, counter, region, window, slot, replica, shard, "
        "p * 2, n, duplicates, through FROM tally.cells_1m "
        "WHERE build = 1 AND counter = 'past:key-2' AND p > 0 AND {old}"
    ),
    "altered": (
        "ALTER TABLE tally.cells_1m UPDATE n = n + 7 "
        "WHERE build = 1 AND counter = 'past:key-3' AND {old} SETTINGS mutations_sync = 1"
    ),
}


def spoil(running: Running) -> dict[str, int]:
    """Harm cells of the past, each way another counter; returns how many cells of each."""
    client = running.site.tally.client()
    old = f"slot < toDateTime({time.time() - 2 * 3600:.0f}, 'UTC')"
    harmed = {}
    for key, (way, statement) in enumerate(SPOILED.items(), start=1):
        counter = f"past:key-{key}"
        more = "AND p > 0" if way == "doubled" else ""
        [(cells,)] = client.query(
            "SELECT count() FROM tally.merged_1m WHERE build = 1 "
            f"AND counter = '{counter}' AND {old} {more}"
        ).result_rows
        assert cells, f"nothing to spoil of {counter}"
        client.command(statement.format(old=old))
        harmed[counter] = int(cells)
    return harmed


def test_check_finds_what_was_spoiled_and_swap_repairs_it_under_load(running: Running) -> None:
    running.site.settle(1)
    harmed = spoil(running)
    # A check takes long and changes nothing that people see; a swap does, in a moment.
    with (
        somebody_looks(running.site, FAMILY, pause_s=0.5),
        running.replay("--check", "--json", name="check") as check,
    ):
        assert check.wait(timeout_s=REPLAY_TIMEOUT_S) == 1
        found = json.loads(check.output().splitlines()[-1])
    assert found["build"] == 2
    assert found["check"]["differs"]
    minutes = next(one for one in found["check"]["tables"] if one["table"] == "cells_1m")
    assert minutes["differ"] == sum(harmed.values()), minutes
    assert running.live() == 1
    with somebody_looks(running.site, FAMILY), running.replay("--swap", name="swap") as swap:
        assert swap.wait(timeout_s=REPLAY_TIMEOUT_S) == 0, swap.output()
        assert "build 2 is live; build 1 was" in swap.output()
        assert "other workers go on with it" in swap.output()
    assert running.live() == 2
    assert all(worker.running for worker in running.workers)
    running.stream.finish()
    running.expect_views_to_be_true()
    refused = running.site.tally.run("replay", "--build", "2", code=1)
    assert "build 2 is live" in refused.stderr
    refused = running.site.tally.run("replay", "--build", "7", code=1)
    assert "there is no build 7" in refused.stderr
    refused = running.site.tally.run("builds", "--drop", "2", code=1)
    assert "build 2 is live" in refused.stderr
    with running.replay("--build", "1", "--check", name="again") as again:
        assert again.wait(timeout_s=REPLAY_TIMEOUT_S) == 1  # build 1 is still what was spoiled


def test_a_trimmed_log_is_counted_from_a_midnight_on_and_older_days_are_carried_over(
    running: Running,
) -> None:
    running.site.settle(1)
    wait_until(
        lambda: running.site.tally.rows("SELECT count() FROM tally.cells_1d WHERE build = 1")[0][0],
        "days are rolled up",
        timeout_s=60,
    )
    trim(running.site.kafka, running.ends[20])
    with somebody_looks(running.site, FAMILY):
        with running.replay("--check", "--swap", name="replay") as replay:
            assert replay.wait(timeout_s=REPLAY_TIMEOUT_S) == 0, replay.output()
            written = replay.output()
        assert "what is older is carried over from build 1" in written
        assert "agree" in written
    [(counts_from_s,)] = running.site.tally.rows(
        "SELECT toUnixTimestamp(counts_from) FROM tally.rebuilds FINAL WHERE build = 2"
    )
    first_s = time.time() - DAYS * 86_400 + 20 * 3600
    assert counts_from_s % 86_400 == 0
    # Three hours until the rules come, a day until nothing is late, then the next midnight.
    assert first_s + 24 * 3600 < counts_from_s < first_s + 52 * 3600
    running.stream.finish()
    running.expect_views_to_be_true()
    done = running.site.tally.run("builds", "--drop", "1")
    assert "build 1 is dropped" in done.stdout
    running.expect_views_to_be_true()
