"""Letters after a fix, by the command: rows that were set aside, and letters of a lost log."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver import Client
from confluent_kafka.admin import AdminClient

from pipeline import topics
from pipeline.letters.remembered import OTHER_LOG
from schemas.addresses import KafkaAddress
from sketches.distinct import Distinct
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


RULES = """
[families.paged]
kind = "sketched"
"""


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    log = EmbeddedLog(tmp_path_factory.mktemp("log"))
    log.start()
    folder = tmp_path_factory.mktemp("tally")
    (folder / "tally.toml").write_text(RULES)
    settings = {**SETTINGS, "TALLY_CONFIG": str(folder / "tally.toml")}
    try:
        with tally_on(log, folder, settings=settings) as running:
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


SKETCH_TABLES = ("frequency_1m", "heavy_1m", "distinct_1h", "distinct_1d", "trend_members")


def test_sketches_and_members_that_were_refused_are_inserted_by_the_command(
    tally: RunningTally,
) -> None:
    bad, page, members = "refused:bad", "paged:home", {f"member-{n}" for n in range(12)}
    before = len(letters(tally))
    client = tally.client()
    refuse(client, "region != 'bad'", *SKETCH_TABLES, "cells_1m")
    try:
        for region in ("good", "bad"):
            for member in sorted(members):
                send(tally, event(bad, region=region, member=f"{region}-{member}"))
            send(tally, event(page, delta=30, region=region))
            send(tally, event(page, delta=-4, region=region))
            send(tally, b"nonsense")
        named = (*(f"tally.{table}" for table in SKETCH_TABLES), "this cell")
        refused = ", ".join(f"countIf(position(reason, '{one}') > 0) > 0" for one in named)
        every = (True,) * len(named)
        tally.wait_for(f"SELECT {refused} FROM tally.dead_letters", [every], 2 * PATIENCE_S)
        wait_until_counted(tally)
        assert count(tally, page) == 26
        assert uniques(tally, bad) == expected_uniques(f"good-{name}" for name in members)
        assert insert(tally, code=1)["inserted"] == 0
    finally:
        refuse(client, None, *SKETCH_TABLES, "cells_1m")
        client.close()
    waiting = [one for one in letters(tally, "--waiting").values() if one["row"] < 0]
    assert insert(tally) == {
        "inserted": len(waiting),
        "skipped": [{"reason": "inserted before", "letters": before}] if before else [],
    }
    both = [f"{region}-{name}" for region in ("good", "bad") for name in members]
    for _ in range(2):
        assert (count(tally, page), count(tally, bad)) == (52, 24)
        assert (count(tally, page, "--region", "bad"), count(tally, bad, "--region", "bad")) == (
            26,
            12,
        )
        assert uniques(tally, bad) == expected_uniques(both)
        forget = tally.client()
        forget.command("TRUNCATE TABLE tally.put_back")
        forget.close()
        assert insert(tally)["inserted"] == before + len(waiting), "twice is once"
    left = letters(tally, "--waiting")
    assert {one["value"] for one in left.values()} == {"nonsense"}, "records are not rows"


def refuse(client: Client, check: str | None, *tables: str) -> None:
    """Let tables refuse what does not pass, or take everything again."""
    for table in tables:
        change = "DROP CONSTRAINT aside" if check is None else f"ADD CONSTRAINT aside CHECK {check}"
        client.command(f"ALTER TABLE tally.{table} {change}")


def wait_until_counted(tally: RunningTally) -> None:
    """Block until a checkpoint is past all that is in the shard now: its letters are written."""
    offset, _ = send(tally, event("counted:all"))
    tally.wait_for(
        f"SELECT max(checkpoint_through) >= {offset} FROM tally.positions WHERE shard = {SHARD}",
        [(1,)],
        PATIENCE_S,
    )


def count(tally: RunningTally, counter: str, *options: str) -> int:
    return int(ask_json(tally, "count", counter, "--mode", "exact", *options)["total"])


def uniques(tally: RunningTally, counter: str) -> tuple[int, int, int]:
    told = ask_json(tally, "unique", counter)
    return told["uniques"], told["low"], told["high"]


def expected_uniques(members: Iterable[str]) -> tuple[int, int, int]:
    """What one sketch of exactly these members tells."""
    sketch = Distinct.for_error(0.02)
    sketch.add_many(sorted(members))
    return sketch.uniques()


def test_letters_of_a_lost_log_are_left_out_with_a_reason_and_not_marked(
    tally: RunningTally, tmp_path: Path
) -> None:
    for _ in range(5):
        send(tally, event("lost:before"))
    # Heartbeats and rules take places in either log: of many letters some are letters in both.
    lost = dict(send(tally, b"nonsense") for _ in range(20))
    wait_for_letters(tally, *map(place_of, lost))
    edited = tmp_path / "edited.ndjson"
    retry = ("dead-letters", "--retry", "--yes", "--edited", str(edited))
    lose_the_log(tally, tmp_path)

    edit(edited, *lost)
    left_out = {"sent": 0, "skipped": [{"reason": OTHER_LOG, "letters": len(lost)}]}
    assert ask_json(tally, *retry, code=1) == left_out
    found = [send(tally, b"nonsense")[0]]
    while found[-1] <= max(lost):
        found.append(send(tally, b"nonsense")[0])
    wait_for_letters(tally, place_of(found[-1]))
    # The new log has the same place, which is another letter; that one is newer, and meant.
    offset = max(lost.keys() & set(found))
    log_ms = lost[offset]
    edit(edited, offset)
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


def place_of(offset: int) -> str:
    return f"{SHARD}/{offset}/0"


def edit(file: Path, *offsets: int) -> None:
    """Have these letters say something that counts."""
    event = {"counter": "lost:a"}
    lines = [json.dumps({"place": place_of(offset), "event": event}) for offset in offsets]
    file.write_text("".join(f"{line}\n" for line in lines))


def lose_the_log(tally: RunningTally, folder: Path) -> None:
    """Make the topic anew while no worker runs, and have it accepted."""
    tally.workers.pop().stop(timeout_s=90)
    admin = AdminClient({"bootstrap.servers": tally.kafka, "log_level": 0})
    admin.delete_topics([TOPIC])[TOPIC].result(timeout=20)
    wait_until(lambda: TOPIC not in admin.list_topics(timeout=20).topics, "the topic is gone")
    topics.ensure_topics(KafkaAddress(tally.kafka), build=1, partitions=PARTITIONS)
    assert ask_json(tally, "accept-log")["accepted"]
    tally.workers.append(start_worker(tally, folder / "worker-anew.txt"))
