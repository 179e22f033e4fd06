"""Letters after a fix, by the command: cells that were set aside, and letters of a lost log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from pipeline import topics
from pipeline.letters.remembered import OTHER_LOG
from tests.integration.test_dead_letters import (
    PATIENCE_S,
    SHARD,
    TOPIC,
    ask_json,
    event,
    letters,
    send,
    wait_for_letters,
    wait_for_total,
)
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import wait_until
from tests.kit.tally import RunningTally, start_worker, tally_on

PARTITIONS = 4
SETTINGS = {
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    "TALLY_PARTITIONS": str(PARTITIONS),
}
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    log = EmbeddedLog(tmp_path_factory.mktemp("log"))
    log.start()
    try:
        with tally_on(log, tmp_path_factory.mktemp("tally"), settings=SETTINGS) as running:
            yield running
    finally:
        log.kill()


def insert(tally: RunningTally, *options: str, code: int = 0) -> Any:
    return ask_json(tally, "dead-letters", "--insert", "--yes", *options, code=code)


def sums(tally: RunningTally, counter: str) -> dict[str, int]:
    """What of a counter is in each table, without the help of views."""
    return {
        grain: tally.rows(f"SELECT max(p) FROM tally.cells_{grain} WHERE counter = '{counter}'")[0][
            0
        ]
        for grain in ("1m", "1h", "1d", "life")
    }


def test_cells_that_were_set_aside_are_inserted_and_rolled_up_by_the_command(
    tally: RunningTally,
) -> None:
    client = tally.client()
    bad = "aside:bad"
    client.command(f"ALTER TABLE tally.cells_1m ADD CONSTRAINT aside CHECK counter != '{bad}'")
    try:
        send(tally, event("aside:good"))
        wait_for_total(tally, "aside:good", 1)
        send(tally, event(bad, delta=7))
        tally.wait_for(
            "SELECT count() > 0 FROM tally.dead_letters WHERE row < 0", [(1,)], PATIENCE_S
        )
        refused = insert(tally, code=1)
        assert refused["inserted"] == 0
        [skipped] = refused["skipped"]
        assert skipped["reason"].startswith("ClickHouse refuses them still: ")
        assert "aside" in skipped["reason"]
    finally:
        client.command("ALTER TABLE tally.cells_1m DROP CONSTRAINT aside")
        client.close()
    waiting = len(letters(tally, "--waiting"))
    assert insert(tally, "--shard", str(SHARD + 1)) == {"inserted": 0, "skipped": []}
    assert insert(tally, "--last", "1h") == {"inserted": waiting, "skipped": []}
    assert sums(tally, bad) == {"1m": 7, "1h": 7, "1d": 7, "life": 7}
    wait_for_total(tally, bad, 7)
    assert letters(tally, "--waiting") == {}
    again = {"reason": "inserted before", "letters": waiting}
    assert insert(tally) == {"inserted": 0, "skipped": [again]}
    assert insert(tally, "--waiting") == {"inserted": 0, "skipped": []}


def test_letters_of_a_lost_log_are_left_out_with_a_reason_and_not_marked(
    tally: RunningTally, tmp_path: Path
) -> None:
    for _ in range(5):
        send(tally, event("lost:before"))
    offset, log_ms = send(tally, b"nonsense")
    place = f"{SHARD}/{offset}/0"
    wait_for_letters(tally, place)
    edited = tmp_path / "edited.ndjson"
    edited.write_text(json.dumps({"place": place, "event": {"counter": "lost:a"}}) + "\n")
    retry = ("dead-letters", "--retry", "--yes", "--edited", str(edited))
    lose_the_log(tally, tmp_path)

    left_out = {"sent": 0, "skipped": [{"reason": OTHER_LOG, "letters": 1}]}
    assert ask_json(tally, *retry, code=1) == left_out
    while send(tally, b"nonsense")[0] <= offset:
        pass
    wait_for_letters(tally, f"{SHARD}/{offset + 1}/0")
    # The new log has the same place, which is another letter; that one is newer, and meant.
    client = tally.client()
    client.command("OPTIMIZE TABLE tally.dead_letters FINAL")
    client.close()
    same = f"shard = {SHARD} AND offset = {offset} AND row = 0"
    assert tally.rows(f"SELECT count() FROM tally.dead_letters WHERE {same}") == [(2,)]
    assert ask_json(tally, *retry) == {"sent": 1, "skipped": []}
    wait_for_total(tally, "lost:a", 1)
    old = f"{same} AND log_time = fromUnixTimestamp64Milli({log_ms}, 'UTC')"
    assert tally.rows(f"SELECT count() FROM tally.retries WHERE {old}") == [(0,)]
    assert tally.rows(f"SELECT count() FROM tally.retries WHERE {same}") == [(1,)]


def lose_the_log(tally: RunningTally, folder: Path) -> None:
    """Make the topic anew while no worker runs, and have it accepted."""
    tally.workers.pop().stop(timeout_s=30)
    admin = AdminClient({"bootstrap.servers": tally.kafka, "log_level": 0})
    admin.delete_topics([TOPIC])[TOPIC].result(timeout=20)
    wait_until(lambda: TOPIC not in admin.list_topics(timeout=20).topics, "the topic is gone")
    topics.ensure_topics(tally.kafka, build=1, partitions=PARTITIONS)
    assert ask_json(tally, "accept-log")["accepted"]
    tally.workers.append(start_worker(tally, folder / "worker-anew.txt"))
