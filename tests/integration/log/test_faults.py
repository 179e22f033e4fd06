"""The embedded log dies in the worst places, again and again, and loses nothing it acknowledged.

Only here are tests for one broker: a real Kafka has no fault points.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.log.clients import Clients
from tests.integration.log.streams import Stream, problems
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import wait_until

FAULT_EXIT_CODE = 137
SEGMENT_BYTES = 1_048_576
# How often a point may be passed before the broker dies there: rolls are rarer than writes.
PASSAGES_MAX = {"before-write": 150, "mid-batch": 150, "after-write": 150, "segment-roll": 3}
ROUNDS = [3, pytest.param(20, marks=[pytest.mark.prove, pytest.mark.timeout(600)])]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """A broker of the test's own, for it will not survive."""
    made = EmbeddedLog(tmp_path)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def seeded() -> random.Random:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


def die_at(log: EmbeddedLog, fault: str) -> None:
    """Restart the broker and block until it has died at this point."""
    log.kill()
    log.start(fault=fault)
    wait_until(lambda: not log.running, f"death at {fault}", timeout_s=90)
    assert log.exit_code == FAULT_EXIT_CODE


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("point", PASSAGES_MAX)
def test_nothing_acknowledged_is_lost_or_repeated_whatever_the_place_of_death(
    log: EmbeddedLog, seeded: random.Random, point: str, rounds: int
) -> None:
    with Clients(log.bootstrap) as clients, ExitStack() as stack:
        topic = clients.topic(partitions=2, segment_bytes=SEGMENT_BYTES)
        streams = [
            stack.enter_context(Stream(clients, topic, name=name, partition=partition, codec=codec))
            for name, partition, codec in (("a", 0, "none"), ("b", 0, "lz4"), ("c", 1, "none"))
        ]
        for _ in range(rounds):
            die_at(log, f"{point}:{seeded.randint(1, PASSAGES_MAX[point])}")
        log.start()
        for stream in streams:
            stream.wait_for_more(100)
            stream.finish()
        read = [clients.read_to_end(topic, partition=partition) for partition in range(2)]
        acknowledged = sum(len(stream.numbers) for stream in streams)
        print(f"{acknowledged} records acknowledged over {rounds} deaths at {point}")
        for stream in streams:
            assert problems(stream, read[stream.partition]) == []


@pytest.mark.parametrize("rounds", ROUNDS)
def test_compaction_may_die_between_its_files_and_loses_no_last_value(
    log: EmbeddedLog, seeded: random.Random, rounds: int
) -> None:
    with Clients(log.bootstrap) as clients:
        topic = clients.topic(
            cleanup_policy="compact", segment_ms=200, min_cleanable_dirty_ratio="0.01"
        )
        with Stream(clients, topic, keys=50) as stream:
            for _ in range(rounds):
                die_at(log, f"compaction-swap:{seeded.randint(1, 2)}")
            log.start()
            stream.wait_for_more(100)
            stream.finish()
        read = clients.read_to_end(topic)
        assert problems(stream, read) == []
        assert len(read) < stream.sent


def test_without_idempotence_the_judge_sees_what_was_stored_but_not_acknowledged_twice(
    log: EmbeddedLog,
) -> None:
    with Clients(log.bootstrap) as clients:
        topic = clients.topic()
        with Stream(clients, topic, idempotent=False) as stream:
            die_at(log, "after-write:20")
            log.start()
            stream.wait_for_more(100)
            stream.finish()
        assert any("is there 2 times" in w for w in problems(stream, clients.read_to_end(topic)))


def last_segment(log: EmbeddedLog, topic: str) -> Path:
    """The file that holds the newest records of the topic's only partition."""
    found = [path for path in log.data.rglob("*.log") if topic in str(path)]
    assert found, f"no segment of {topic} in {log.data}"
    return max(found)


def test_garbage_behind_the_last_record_is_cut_off(log: EmbeddedLog, seeded: random.Random) -> None:
    with Clients(log.bootstrap) as clients:
        topic = clients.topic()
        with Stream(clients, topic) as stream:
            for _ in range(3):
                stream.wait_for_more(5000)
                log.kill()
                with last_segment(log, topic).open("ab") as segment:
                    segment.write(seeded.randbytes(seeded.randint(1, 5000)))
                log.start()
            stream.wait_for_more(5000)
            stream.finish()
        assert problems(stream, clients.read_to_end(topic)) == []


def test_the_judge_misses_what_was_cut_off_on_purpose(log: EmbeddedLog) -> None:
    with Clients(log.bootstrap) as clients:
        topic = clients.topic()
        with Stream(clients, topic) as stream:
            stream.wait_for_more(5000)
            stream.finish()
        assert problems(stream, clients.read_to_end(topic)) == []
        log.kill()
        segment = last_segment(log, topic)
        with segment.open("r+b") as cut:
            cut.truncate(segment.stat().st_size - 1)
        log.start()
        wrong = problems(stream, clients.read_to_end(topic))
        last = stream.sent - 1
        assert f"{last} is missing, acknowledged at {last}" in wrong
        assert all("is missing" in problem for problem in wrong)
        assert len(wrong) < stream.sent
