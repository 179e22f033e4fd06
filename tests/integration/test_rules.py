"""Counting rules with real processes: put into the log, followed, refused, set right; doctor."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.clock import SystemClock
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.control.shard_plan import keep_plan_with, planned_rules
from pipeline.errors import OperatorError
from pipeline.planning.plan import RULES_KEY
from pipeline.producer import Producer
from pipeline.rollup.leaders_pass import roll_up_with
from pipeline.rules import CountingRules, FamilyRules
from pipeline.topics import ensure_topics
from schemas.addresses import ClickHouseAddress, KafkaAddress
from schemas.settings import Settings
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process, wait_until
from tests.kit.tally import START_TIMEOUT_S, TALLY, Done, RunningTally, start_worker, tally_alone

PARTITIONS = 3
HOUR_MS = 3_600_000
PATIENCE_S = 60
SETTINGS = {
    "TALLY_PARTITIONS": str(PARTITIONS),
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
}


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    folder = tmp_path_factory.mktemp("rules")
    with tally_alone(folder, SETTINGS) as running:
        yield running


def shown(tally: RunningTally) -> dict[str, Any]:
    document: dict[str, Any] = tally.json("rules")
    return document


def wait_for_version(tally: RunningTally, version: int) -> None:
    wait_until(
        lambda: {shard["version"] for shard in shown(tally)["shards"]} == {version},
        f"all shards count by version {version}",
        timeout_s=PATIENCE_S,
        poll_s=0.5,
    )


def tally_toml(folder: Path, text: str) -> str:
    path = folder / "tally.toml"
    path.write_text(text)
    return str(path)


def produce(tally: RunningTally, *events: dict[str, object]) -> None:
    tally.run("produce", "-", stdin="".join(json.dumps(event) + "\n" for event in events))


def run_with(tally: RunningTally, file: str, *arguments: str) -> Done:
    """A command whose families' file is `file`."""
    other = RunningTally(tally.kafka, tally.clickhouse, settings={**SETTINGS, "TALLY_CONFIG": file})
    return other.run_process(*arguments, code=1)


def test_the_first_worker_puts_the_defaults_into_every_partition(tally: RunningTally) -> None:
    document = shown(tally)
    assert document["whole"]
    assert document["rules"]["version"] > 0
    assert document["rules"]["id_partitions"] == PARTITIONS
    assert CountingRules().counts_as(
        planned_rules(KafkaAddress(tally.kafka)) or CountingRules(ids_limit=1)
    )
    wait_for_version(tally, document["rules"]["version"])


def test_applied_rules_hold_from_then_on(tally: RunningTally, tmp_path: Path) -> None:
    [(now_ms,)] = tally.rows("SELECT toUnixTimestamp64Milli(now64(3))")
    old = {"counter": "quick:x", "at": now_ms - 2 * HOUR_MS}
    produce(tally, old, {**old, "counter": "slow:x"})
    file = tally_toml(tmp_path, '[families.quick]\nlateness = "1h"\n')
    done = tally.json("rules", "apply", file, "--note", "as agreed", "--wait", str(PATIENCE_S))
    assert (done["applied"], done["waiting_for"]) == (True, [])
    assert {"setting": "families.quick.lateness", "before": "1d", "after": "1h"} in done[
        "differences"
    ]
    produce(tally, old, {**old, "counter": "slow:x"})
    query = "SELECT counter, toInt64(total) FROM tally.totals WHERE endsWith(counter, ':x')"
    tally.wait_for(f"{query} ORDER BY counter", [("quick:x", 1), ("slow:x", 2)])
    document = shown(tally)
    assert document["note"] == "as agreed"
    assert document["rules"]["version"] == done["version"]

    again = tally.json("rules", "apply", file)
    assert (again["applied"], again["version"]) == (False, done["version"])


def test_retention_is_dropped_by_as_it_was_applied_and_not_by_who_leads(
    tally: RunningTally, tmp_path: Path
) -> None:
    # Asked for once: midnight may come between the steps.
    [(found,)] = tally.rows("SELECT toString(toDate(now('UTC')) - 4)")
    day = f"toDate('{found}')"
    client = tally.client()
    client.command(
        "INSERT INTO tally.cells_1m (build, counter, window, slot, replica, shard, p) "
        f"SELECT 1, 'old:x', toDateTime({day}, 'UTC'), toDateTime({day}, 'UTC'), 'main', 0, 5"
    )
    client.close()
    settings = Settings(
        kafka=KafkaAddress(tally.kafka),
        clickhouse=ClickHouseAddress(tally.clickhouse),
        build=1,
        longest_query_s=0,
        config=None,
    )
    roll_up = roll_up_with(settings, SystemClock())
    is_final = f"SELECT count() > 0 FROM tally.final_days WHERE slot_day = {day}"
    wait_until(
        lambda: roll_up().dropped == [] and tally.rows(is_final) == [(1,)],
        "the day is final",
        timeout_s=PATIENCE_S,
        poll_s=0.5,
    )
    assert roll_up().dropped == []

    text = '[families.quick]\nlateness = "1h"\n[default]\nretention."1m" = "2d"\n'
    done = tally.json("rules", "apply", tally_toml(tmp_path, text))
    assert {"setting": "default.retention.1m", "before": "7d", "after": "2d"} in done["differences"]
    assert shown(tally)["retention"]["default.retention.1m"] == "2d"
    assert [drop.grain for drop in roll_up().dropped] == ["1m"]


def test_a_producer_waits_for_a_plan_where_others_sent_before(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.start()
    try:
        ensure_topics(KafkaAddress(log.bootstrap), 1, 5)
        Producer(log.bootstrap).close()
        write_records(
            KafkaAddress(log.bootstrap), [LogRecord("tally.increments", 4, b"{}")], SystemClock()
        )
        with pytest.raises(OperatorError, match="start a worker"):
            Producer(log.bootstrap).close()
        keep_plan = keep_plan_with(KafkaAddress(log.bootstrap), SystemClock())
        for version in (2, 1):
            keep_plan(CountingRules(version, id_partitions=3))
        Producer(log.bootstrap).close()
        planned = planned_rules(KafkaAddress(log.bootstrap))
        assert planned == CountingRules(2, id_partitions=3)
    finally:
        log.kill()


def test_a_worker_whose_file_differs_refuses_to_start(tally: RunningTally, tmp_path: Path) -> None:
    file = tally_toml(tmp_path, "[families.other]\nregions = false\n")
    refused = run_with(tally, file, "worker")
    assert "families.other.regions: true -> false" in refused.stderr
    assert f"`tally rules apply {file}`" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_an_applying_that_was_cut_short_is_set_right_by_applying_again(
    tally: RunningTally, tmp_path: Path
) -> None:
    before = planned_rules(KafkaAddress(tally.kafka))
    assert before is not None
    half = CountingRules(before.version + 1, FamilyRules(cells_max=7), id_partitions=PARTITIONS)
    plan = LogRecord("tally.shard-plan", 0, half.bytes, RULES_KEY)
    one = LogRecord("tally.increments", 1, half.bytes, kind="rules")
    write_records(KafkaAddress(tally.kafka), [plan, one], SystemClock())
    assert not shown(tally)["whole"]
    # Back to what the other partitions have, which must reach the one that is ahead, too.
    file = tally_toml(tmp_path, '[families.quick]\nlateness = "1h"\n')
    done = tally.json("rules", "apply", file, "--wait", str(PATIENCE_S))
    assert (done["applied"], done["waiting_for"]) == (True, [])
    assert shown(tally)["whole"]


def test_a_clickhouse_that_knows_no_rules_learns_them_from_the_log(
    tally: RunningTally, tmp_path: Path
) -> None:
    before = shown(tally)["rules"]
    client = tally.client()
    client.command("TRUNCATE TABLE tally.rules")
    client.close()
    worker = start_worker(tally, tmp_path / "worker.txt")
    try:
        document = shown(tally)
        assert document["whole"]
        assert document["rules"]["families"] == before["families"]
        assert document["rules"]["version"] > before["version"]
    finally:
        worker.stop(timeout_s=PATIENCE_S)


def test_a_mistake_in_a_file_is_told_with_its_place(tally: RunningTally, tmp_path: Path) -> None:
    good = tally_toml(tmp_path, "[families.a]\n")
    assert tally.json("rules", "check", good)["families"] == ["a"]
    file = tally_toml(tmp_path, '[families.a]\n\nkind = "exactly"\n')
    for action in ("check", "apply"):
        refused = tally.run("rules", action, file, code=1)
        assert refused.stderr.startswith(f"tally: {file}:3: families.a.kind: expected 'exact', ")


def test_the_doctor_finds_nothing_wrong_and_then_what_is(
    tally: RunningTally, tmp_path: Path
) -> None:
    states = {each["name"]: each["state"] for each in tally.json("doctor")["findings"]}
    assert "fail" not in states.values()
    expected = {"Kafka", "ClickHouse", "clock of the log", "clock of ClickHouse", "tables", "disk"}
    assert expected | {"topic tally.increments", "rules in the log", "data folder"} <= set(states)

    file = tally_toml(tmp_path, "[families.other]\nregions = false\n")
    unwell = run_with(tally, file, "doctor").stdout
    assert f"fail  rules in {file}: differs from the log" in unwell

    nowhere = RunningTally("127.0.0.1:1", tally.clickhouse)
    document = nowhere.json("doctor", code=1)
    assert not document["healthy"]
    [failed] = [each for each in document["findings"] if each["state"] == "fail"]
    assert failed["name"] == "Kafka"
    assert failed["to_do"]


@pytest.mark.timeout(400)
def test_up_applies_its_file_and_says_so(tmp_path: Path) -> None:
    ports = ["--kafka-port", "0", "--clickhouse-port", "0", "--web-port", "0"]
    command = [*TALLY, "up", "--data", str(tmp_path / "data"), "--workers", "0", *ports]
    for text, said in (
        ('[default]\nlateness = "2h"', "the first rules"),
        ('[default]\nlateness = "3h"', "default.lateness: 2h -> 3h"),
    ):
        env = {"TALLY_CONFIG": tally_toml(tmp_path, text)}
        with Process(command, output_path=tmp_path / "up.txt", env=env) as up:
            up.wait_for_line(r"Ctrl-C stops everything", timeout_s=START_TIMEOUT_S)
            up.wait_for_line(rf"^rules +tally\.toml +applied +{said}$", timeout_s=1)
            up.stop(timeout_s=PATIENCE_S)
