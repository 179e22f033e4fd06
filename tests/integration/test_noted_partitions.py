"""The number of partitions that reads go by, in a real ClickHouse: whose word holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from clickhouse_connect.driver import Client

from pipeline.clickhouse import connect
from pipeline.clock import SystemClock
from pipeline.control.noted_partitions import NotedPartitions
from pipeline.reads.reads import Reads
from pipeline.rules import CountingRules
from schemas.migrate import migrate
from tests.kit.door import Door


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = tmp_path_factory.mktemp("noted")
    door = Door(folder)
    try:
        door.start()
        client = connect(door.url)
        migrate(client)
        yield client
    finally:
        door.kill()


@pytest.fixture
def noted(client: Client) -> NotedPartitions:
    client.command("TRUNCATE TABLE tally.topic_partitions")
    return NotedPartitions(client)


def test_nothing_is_noted_before_somebody_does(noted: NotedPartitions) -> None:
    found = noted.read()
    assert (found.partitions, found.seen_ms) == (0, 0)
    noted.replace(found, 4)
    assert noted.read().partitions == 4


def test_of_two_that_grow_the_log_at_once_the_greater_number_holds(noted: NotedPartitions) -> None:
    noted.announce(6)
    assert noted.announce(9).partitions == 9
    known = noted.announce(6)
    assert known.partitions == 9
    assert 0 <= known.age_ms < 60_000


def test_what_was_noted_since_is_not_replaced(noted: NotedPartitions) -> None:
    known = noted.announce(6)
    noted.announce(9)
    noted.replace(known, 4)
    assert noted.read().partitions == 9
    noted.replace(noted.read(), 4)
    assert noted.read().partitions == 4


def test_each_is_later_than_the_one_before_though_the_clock_was_set_back(
    client: Client, noted: NotedPartitions
) -> None:
    client.command(
        "INSERT INTO tally.topic_partitions "
        "SELECT 'tally.increments', 3, now64(3) + toIntervalHour(1)"
    )
    known = noted.read()
    assert (known.partitions, known.age_ms < 0) == (3, True)
    later = noted.announce(5)
    assert (later.partitions, later.seen_ms) == (5, known.seen_ms + 1)
    client.command("OPTIMIZE TABLE tally.topic_partitions FINAL")
    assert noted.read().partitions == 5


def test_reads_have_it_with_the_rules_also_with_those_of_a_newer_tally(
    client: Client, noted: NotedPartitions
) -> None:
    def read() -> tuple[CountingRules | None, int]:
        reads = Reads(client, SystemClock())
        return reads.rules(), reads.partitions()

    noted.announce(5)
    client.command("TRUNCATE TABLE tally.rules")
    assert read() == (None, 0)
    rules = CountingRules(version=7, id_partitions=2)
    insert = "INSERT INTO tally.rules (version, document) VALUES ({version:UInt64}, {text:String})"
    client.command(insert, {"version": 7, "text": rules.bytes.decode()})
    found, partitions = read()
    assert found is not None
    assert (found.version, found.id_partitions, partitions) == (7, 2, 5)
    client.command(insert, {"version": 8, "text": '{"format": 99}'})
    assert read() == (None, 5)
