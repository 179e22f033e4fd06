"""Adjustments whose fate nobody knows: told as such, and sent again without harm."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline import topics
from pipeline.adjustments import sending
from schemas.addresses import KafkaAddress
from schemas.adjustments import Adjustment, read_adjustment
from tests.kit.embedded import EmbeddedLog

MADE = {"counter": "a:b", "by": 3, "who": "ann", "why": "so", "at": 1_794_800_000_000}


def adjustment(id_: str) -> Adjustment:
    return Adjustment.model_validate({**MADE, "id": id_})


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """A broker of the test's own, for it will not survive."""
    made = EmbeddedLog(tmp_path)
    made.start()
    topics.ensure_topics(KafkaAddress(made.bootstrap), 1, 2)
    yield made
    made.kill()


def stored(log: EmbeddedLog, partition: int, records: int) -> list[Adjustment]:
    """The first adjustments that a partition has."""
    settings = {"bootstrap.servers": log.bootstrap, "group.id": "reads", "log_level": 0}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topics.INCREMENTS, partition, 0)])
        found = consumer.consume(records, timeout=20)
    return [read_adjustment(message.value() or b"") for message in found]


def test_what_is_written_by_a_log_that_dies_before_it_says_so_is_unknown(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "DELIVERY_TIMEOUT_S", 6.0)
    log.stop()
    log.start(fault="after-write")
    first = sending.send(KafkaAddress(log.bootstrap), [adjustment("x")])
    assert (list(first.unknown), first.places) == ([0], {})
    log.kill()
    log.start()
    monkeypatch.undo()
    second = sending.send(KafkaAddress(log.bootstrap), [adjustment("x")])
    assert second.unknown == {}
    [(partition, offset)] = second.places.items()
    # Written twice, and told so by nobody: hence the id.
    assert offset == 1
    assert [one.id for one in stored(log, partition, offset + 1)] == ["x", "x"]
