"""A real worker keeps the ledger, over a kill -9, and its leader notices what is spoilt."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.processes import wait_until
from tests.kit.tally import RunningTally, start_worker, tally_alone

QUICK = {
    "TALLY_PARTITIONS": "2",
    "TALLY_FLUSH_INTERVAL_S": "0.3",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    "TALLY_HEARTBEAT_INTERVAL_S": "1",
    "TALLY_VERIFY_INTERVAL_S": "0.5",
    "TALLY_ROLLUP_INTERVAL_S": "3600",
    "TALLY_TRENDS_INTERVAL_S": "3600",
}
PER_BATCH = 400


@pytest.fixture
def tally(tmp_path: Path) -> Iterator[RunningTally]:
    with tally_alone(tmp_path, QUICK) as running:
        yield running


def produce(tally: RunningTally, batch: int) -> None:
    """A batch with removals, and ids of which each is there twice."""
    events = [
        {"counter": f"likes:{n // 2 % 9}", "delta": -1 if n % 10 == 0 else 2}
        | ({"id": f"{batch}-{n // 2}"} if n % 4 < 2 else {})
        for n in range(PER_BATCH)
    ]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    tally.run("produce", "-", stdin=lines)


def wait_counted(tally: RunningTally, batches: int) -> None:
    """Half of a batch has ids, and half of these are duplicates."""
    query = "SELECT sum(rows), sum(counted), sum(duplicates) FROM tally.slots FINAL"
    duplicates = batches * PER_BATCH // 4
    tally.wait_for(query, [(batches * PER_BATCH, batches * PER_BATCH - duplicates, duplicates)])


def standing(tally: RunningTally) -> int:
    """How many differences the leader has noted, of the last times it looked."""
    [(found,)] = tally.rows("SELECT sum(differences) FROM tally.reconciliations FINAL")
    return int(found)


@pytest.mark.timeout(300)
def test_a_worker_that_is_killed_leaves_nothing_that_differs(
    tally: RunningTally, tmp_path: Path
) -> None:
    produce(tally, 0)
    wait_counted(tally, 1)
    agrees = r"log and ClickHouse agree through offset "
    assert tally.run("verify").stdout.startswith(agrees)

    produce(tally, 1)
    tally.workers.pop().kill()
    produce(tally, 2)
    tally.workers.append(start_worker(tally, tmp_path / "again.txt"))
    wait_counted(tally, 3)
    done = tally.run("verify", "--log")
    assert done.stdout.startswith(agrees)
    assert done.stdout.count("\n") == 1

    wait_until(
        lambda: tally.rows("SELECT count() > 0 FROM tally.reconciliations") == [(True,)],
        "the leader to compare",
    )
    assert standing(tally) == 0
    client = tally.client()
    client.command(
        "ALTER TABLE tally.cells_1m UPDATE n = n + 3 WHERE counter = 'likes:0'",
        settings={"mutations_sync": 2},
    )
    client.close()
    wait_until(lambda: standing(tally) > 0, "the leader to notice", timeout_s=60)
    status = tally.json("status", code=1)
    [problem] = [one for one in status["problems"] if "differ" in one]
    assert status["reconciled"]["differences"] > 0
    assert ", n: ledger " in problem
    assert "tally replay --check" in problem
    assert ", n: ledger " in tally.run("verify", code=1).stdout
