"""`tally load`, end to end: what it says was sent is what ClickHouse counts."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.producer.reading import TOPIC
from tests.kit.processes import Process
from tests.kit.tally import TALLY, RunningTally

COUNTS = (
    "SELECT counter, region, toUnixTimestamp(window) * 1000, toInt64(count) "
    "FROM tally.counts_by_region_1m WHERE startsWith(counter, '{}:') ORDER BY 1, 2, 3"
)
PATIENCE_S = 60


def truth_of(path: Path) -> list[tuple[Any, ...]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(
        (row["counter"], row["region"], row["minute"], row["count"])
        for row in rows
        if row["added"] or row["removed"]
    )


def counted(tally: RunningTally, family: str, receipt: str) -> list[tuple[Any, ...]]:
    """What ClickHouse has of a family, once it has all up to the receipt."""
    tally.run("count", f"{family}:counter-1", "--after", receipt, "--wait", str(PATIENCE_S))
    return tally.rows(COUNTS.format(family))


@pytest.mark.parametrize("processes", [1, 2])
def test_the_truth_of_a_load_is_what_is_counted(
    tally: RunningTally, tmp_path: Path, processes: int
) -> None:
    family, truth = f"truth{processes}", tmp_path / "truth.ndjson"
    shares = ["--late=0.2", "--bad=0.02", "--ids=0.2", "--removals=0.2", "--regions=eu,us,"]
    size = ["--events=20001", "--rate=0", "--counters=50", f"--processes={processes}"]
    done = tally.json("load", "--family", family, *shares, *size, "--seed=7", "--truth", str(truth))
    assert (done["sent"], done["stored"], done["unknown"]) == (20_001, 20_001, 0)
    assert done["seed"] == 7
    assert 200 < done["refused"] < 700
    assert 0 < done["delivery_ms"]["p50"] <= done["delivery_ms"]["p99"]

    expected = truth_of(truth)
    assert len(expected) == done["truth_rows"]
    added = Counter[str]()
    for line in truth.read_text().splitlines():
        row = json.loads(line)
        added["increments"] += row["added"] + row["removed"]
    assert added["increments"] == 20_001 - done["refused"]
    assert counted(tally, family, done["receipt"]) == expected


def test_bad_ones_become_dead_letters(tally: RunningTally) -> None:
    # Letters of loads before may still be on their way.
    places = [f"(shard = {shard} AND offset >= {end})" for shard, end in ends(tally).items()]
    done = tally.json("load", "--family=dead", "--events=40", "--bad=1", "--rate=0")
    assert (done["sent"], done["refused"]) == (40, 40)
    letters = f"SELECT uniqExact(shard, offset) FROM tally.dead_letters WHERE {' OR '.join(places)}"
    tally.wait_for(letters, [(40,)])


def ends(tally: RunningTally) -> dict[int, int]:
    """The next offset of each partition."""
    consumer = Consumer({"bootstrap.servers": tally.kafka, "group.id": "-", "log_level": 0})
    try:
        found = consumer.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
        places = [TopicPartition(TOPIC, partition) for partition in found]
        return {
            place.partition: consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1]
            for place in places
        }
    finally:
        consumer.close()


@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_ends_it_in_order(tally: RunningTally, tmp_path: Path, processes: int) -> None:
    family, truth = f"early{processes}", tmp_path / "truth.ndjson"
    options = ["--seconds=600", "--rate=2000", "--json", "--truth", str(truth)]
    command = [*TALLY, "load", "--family", family, f"--processes={processes}", *options]
    query = f"SELECT count() > 0 FROM tally.totals WHERE counter = '{family}:counter-1'"
    with Process(command, output_path=tmp_path / "load.txt", env=tally.env) as load:
        tally.wait_for(query, [(1,)], timeout_s=PATIENCE_S)
        load.send(signal.SIGINT)
        assert load.wait(timeout_s=PATIENCE_S) == 0
        done = json.loads(load.output())
    assert 0 < done["sent"] == done["stored"]
    assert counted(tally, family, done["receipt"]) == truth_of(truth)
