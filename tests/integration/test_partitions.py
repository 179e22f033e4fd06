"""Growing the log while workers count it: they share the new partitions, and counts stay exact."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.control.log_writer import LogRecord, write_records
from schemas.addresses import KafkaAddress
from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka, require_kafka
from tests.kit.processes import Process, wait_until
from tests.kit.tally import RunningTally, start_worker, tally_on

BEFORE, AFTER = 3, 7
PATIENCE_S = 90
SETTINGS = {
    "TALLY_PARTITIONS": str(BEFORE),
    "TALLY_FLUSH_INTERVAL_S": "0.2",
    # So long that shards which are taken over count by older rules than those of the log.
    "TALLY_CHECKPOINT_INTERVAL_S": "60",
}
READY = re.compile(r"^worker ready: (\d+) partitions$", re.MULTILINE)
NOTED = "SELECT argMax(partitions, seen_at) FROM tally.topic_partitions"

Event = dict[str, object]


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def tally(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningTally]:
    folder = tmp_path_factory.mktemp(f"partitions-{request.param}")
    broker: Broker
    if request.param == "kafka":
        require_kafka()
        broker = RealKafka(folder / "log")
    else:
        broker = EmbeddedLog(folder / "log")
    broker.start()
    try:
        with tally_on(broker, folder, workers=2, settings=SETTINGS) as running:
            yield running
    finally:
        broker.kill()


def events(label: str) -> list[Event]:
    """A third of them with an id."""
    return [
        {
            "counter": f"likes:post-{n % 40}",
            "delta": 1 + n % 3,
            **({"id": f"{label}-{n}"} if n % 3 == 0 else {}),
        }
        for n in range(240)
    ]


def produce(tally: RunningTally, wanted: list[Event]) -> None:
    tally.run("produce", "-", stdin="".join(json.dumps(event) + "\n" for event in wanted))


def last_share(worker: Process) -> int:
    """How many partitions a worker has now."""
    return int((READY.findall(worker.output()) or ["0"])[-1])


def shares(tally: RunningTally) -> list[int]:
    """How many partitions each worker has now."""
    return list(map(last_share, tally.workers))


def wait_shared(tally: RunningTally, partitions: int) -> None:
    wait_until(
        lambda: sum(shares(tally)) == partitions and all(shares(tally)),
        f"two workers share {partitions} partitions",
        timeout_s=PATIENCE_S,
        poll_s=0.2,
    )


@pytest.mark.timeout(300)  # Java, two workers and a rebalance on two busy cores
def test_growing_under_two_workers_keeps_every_count_exact(tally: RunningTally) -> None:
    wait_shared(tally, BEFORE)
    first, meanwhile, later = events("first"), events("meanwhile"), events("later")
    produce(tally, first)

    grown = tally.json("partitions", str(AFTER))
    assert grown == {"source": AFTER, "changelogs": {"1": AFTER}, "ids": BEFORE}
    # Workers have not noticed yet: these wait in the new partitions for their first owner.
    produce(tally, meanwhile)
    wait_shared(tally, AFTER)
    produce(tally, later)
    # Sent again by producers that learnt of all partitions: every id must reach the partition in
    # which it was seen before.
    produce(tally, [event for event in first + meanwhile if "id" in event])

    truth: Counter[str] = Counter()
    for event in first + meanwhile + later:
        truth[str(event["counter"])] += int(str(event["delta"]))
    tally.wait_for(
        "SELECT counter, toInt64(total) FROM tally.totals "
        "WHERE startsWith(counter, 'likes:') ORDER BY counter",
        sorted(truth.items()),
        timeout_s=PATIENCE_S,
    )
    # They add nothing to totals, so these may be whole before the last of them are counted.
    tally.wait_for(
        "SELECT toInt64(sum(duplicates)) FROM tally.cells_1m FINAL", [(160,)], timeout_s=PATIENCE_S
    )

    def all_by_the_rules() -> bool:
        document = tally.json("rules")
        found = {shard["version"] for shard in document["shards"]}
        return len(document["shards"]) == AFTER and found == {document["rules"]["version"]}

    wait_until(all_by_the_rules, "new partitions have the rules", timeout_s=PATIENCE_S, poll_s=0.5)
    used = tally.rows("SELECT DISTINCT shard FROM tally.cells_1m ORDER BY shard")
    assert [shard for (shard,) in used] == list(range(AFTER))


def test_growing_again_to_the_same_number_changes_nothing(tally: RunningTally) -> None:
    now = tally.json("partitions")
    assert tally.json("partitions", str(now["source"])) == now


def test_fewer_partitions_are_refused(tally: RunningTally) -> None:
    refused = tally.run("partitions", "2", code=1)
    assert "Kafka takes none away" in refused.stderr


@pytest.mark.timeout(300)
def test_records_before_a_new_partitions_first_rules_are_counted_by_them(
    tally: RunningTally, tmp_path: Path
) -> None:
    """Made by Kafka's own tools, it has no rules when its first owner begins."""
    wait_shared(tally, AFTER)
    file = tmp_path / "tally.toml"
    file.write_text("[families.quiet]\nregions = false\n")
    tally.run("rules", "apply", str(file), "--wait", str(PATIENCE_S))
    admin, new = topics.admin_client(KafkaAddress(tally.kafka)), AFTER
    for topic in (topics.changelog(1), topics.INCREMENTS):
        topics.grow(admin, topic, AFTER + 1)
    event = json.dumps({"counter": "quiet:a", "region": "eu"}).encode()
    write_records(
        KafkaAddress(tally.kafka), [LogRecord(topics.INCREMENTS, new, event)] * 3, SystemClock()
    )
    wait_shared(tally, AFTER + 1)
    tally.wait_for(
        "SELECT shard, region, toInt64(sum(p)) FROM tally.cells_1m FINAL "
        "WHERE counter = 'quiet:a' GROUP BY shard, region",
        [(new, "", 3)],
        timeout_s=PATIENCE_S,
    )
    known = tally.json("rules")
    versions = {shard["shard"]: shard["version"] for shard in known["shards"]}
    assert versions[new] == known["rules"]["version"]
    # Reads are told by the leader: who made it has not.
    tally.wait_for(NOTED, [(AFTER + 1,)], timeout_s=PATIENCE_S)


@pytest.mark.timeout(180)
def test_the_leader_takes_back_what_was_announced_and_never_came(tally: RunningTally) -> None:
    there_are = tally.json("partitions")["source"]
    client = tally.client()
    client.command("TRUNCATE TABLE tally.topic_partitions")
    client.command(
        "INSERT INTO tally.topic_partitions "
        f"SELECT 'tally.increments', {there_are + 5}, now64(3) - toIntervalMinute(2)"
    )
    tally.wait_for(NOTED, [(there_are,)], timeout_s=PATIENCE_S)


@pytest.mark.timeout(300)
def test_workers_go_on_where_growing_ended_after_the_changelogs(
    tally: RunningTally, tmp_path: Path
) -> None:
    """They waited for partitions that the source did not have until they ended, again and again."""
    there_are = int(tally.json("partitions")["source"])
    wanted = there_are + 2
    topics.grow(topics.admin_client(KafkaAddress(tally.kafka)), topics.changelog(1), wanted)
    with start_worker(tally, tmp_path / "third.txt") as third:
        wait_until(
            lambda: sum(map(last_share, [*tally.workers, third])) == there_are,
            "three workers share what both topics have",
            timeout_s=PATIENCE_S,
            poll_s=0.2,
        )
        produce(tally, [{"counter": f"uneven:{n % 9}"} for n in range(90)])
        counted = (
            "SELECT toInt64(sum(total)) FROM tally.totals WHERE startsWith(counter, 'uneven:')"
        )
        tally.wait_for(counted, [(90,)], timeout_s=PATIENCE_S)

    assert f"uneven: run `tally partitions {wanted}`" in tally.run("partitions").stdout
    grown = tally.json("partitions", str(wanted))
    assert (grown["source"], grown["changelogs"]) == (wanted, {"1": wanted})
    wait_shared(tally, wanted)
