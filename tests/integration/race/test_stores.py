"""Contestants of the race that keep their counts in another store count rightly.

Kafka Streams is not among them: it needs Maven, and is tried by hand.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    NewTopic,
)

from benchmarks._events import Event, by_partition, make_events
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process

TOPIC = "race"
EVENTS = 2_000
PARTITIONS = 4
START_MS = 1_760_000_000_000
TIMEOUT_S = 60
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return make_events(EVENTS, START_MS)


@pytest.fixture(scope="module")
def kafka(events: list[Event], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An embedded log with the events, which the contestants only read."""
    log = EmbeddedLog(tmp_path_factory.mktemp("race-log"))
    log.start()
    try:
        admin = AdminClient({"bootstrap.servers": log.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": log.bootstrap})
        for partition, part in enumerate(by_partition(events, PARTITIONS)):
            for event in part:
                producer.produce(TOPIC, event.as_json(), event.counter, partition)
        assert producer.flush(TIMEOUT_S) == 0
        yield log.bootstrap
    finally:
        log.kill()


def result_of(kafka: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What a contestant wrote, started as the race starts it."""
    own, result = folder / "own", folder / "result.json"
    own.mkdir()
    env = {
        "PYTHONPATH": str(ROOT),
        "RACE_KAFKA": kafka,
        "RACE_TOPIC": TOPIC,
        "RACE_EVENTS": str(EVENTS),
        "RACE_PARTITIONS": str(PARTITIONS),
        "RACE_RESULT": str(result),
        "RACE_FOLDER": str(own),
    }
    command = [sys.executable, "-m", *arguments]
    with Process(command, output_path=folder / "output.txt", env=env, cwd=own) as contestant:
        assert contestant.wait(timeout_s=TIMEOUT_S) == 0, contestant.output()
    found: dict[str, Any] = json.loads(result.read_text())
    assert found["seconds"] > 0
    assert 0 < found["events"] <= EVENTS
    return found


def counts_of(events: list[Event]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for event in events:
        name = f"{event.counter} {event.at // 60_000}"
        counts[name] = counts.get(name, 0) + event.delta
    return counts


def members_of(events: list[Event]) -> dict[str, int]:
    """How many members added something; so few that an estimate has them exactly."""
    members: dict[str, set[str]] = {name: set() for name in counts_of(events)}
    for event in events:
        if event.delta > 0:
            members[f"{event.counter} {event.at // 60_000}"].add(event.member)
    return {name: len(found) for name, found in members.items()}


@pytest.mark.parametrize("source", ["kafka", "memory"])
def test_clickhouse_alone_has_the_counts_and_members_of_all_events(
    source: str, kafka: str, events: list[Event], tmp_path: Path
) -> None:
    found = result_of(kafka, tmp_path, "benchmarks.race.clickhouse_alone", source)
    assert found["counts"] == counts_of(events)
    assert found["uniques"] == members_of(events)
    # In memory all events wait for the clock; of Kafka's some are in hand when it starts.
    assert (found["events"] == EVENTS) == (source == "memory")


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_redis_has_the_counts_of_all_events(
    kafka: str, events: list[Event], tmp_path: Path
) -> None:
    found = result_of(kafka, tmp_path, "benchmarks.race.redis_incr")
    assert found["counts"] == counts_of(events)
