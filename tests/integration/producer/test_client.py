"""A Kafka client that died is replaced where it is, and who sends by it sees nothing of that.

librdkafka's own gapless guarantee makes it die when the log refuses one message, here one that is
larger than the topic takes.
"""

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    NewTopic,
)

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.control.shard_plan import keep_plan_with
from pipeline.errors import TryAgainError
from pipeline.producer import Producer, Unknown, UnknownDeliveryError, client
from pipeline.producer.client import Client
from pipeline.producer.lines import LineProducer
from pipeline.rules import CountingRules
from schemas.addresses import KafkaAddress
from schemas.frames import FRAME_SCHEMA
from tests.integration.producer.reading import rows
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import wait_until

PATIENCE_S = 60
VALUE_BYTES_MAX = 5_000
TOO_LARGE = b"x" * (2 * VALUE_BYTES_MAX)
AT_MS = 1_700_000_000_000
EVENT = {"delta": 1, "at": AT_MS, "member": None, "region": "", "id": None}

Word = int | str


@pytest.fixture(scope="module")
def narrow_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLog]:
    """A log that refuses large messages."""
    log = EmbeddedLog(tmp_path_factory.mktemp("narrow"))
    log.start()
    try:
        limits = {"max.message.bytes": str(VALUE_BYTES_MAX)}
        config = {"message.timestamp.type": "LogAppendTime", **limits}
        admin = topics.admin_client(KafkaAddress(log.bootstrap))
        made = admin.create_topics([NewTopic(topics.INCREMENTS, 1, 1, config=config)])
        made[topics.INCREMENTS].result(timeout=20)
        topics.ensure_topics(KafkaAddress(log.bootstrap), 1, 1)
        keep_plan_with(KafkaAddress(log.bootstrap), SystemClock())(
            CountingRules(version=1, id_partitions=1)
        )
        yield log
    finally:
        log.kill()


@pytest.fixture(autouse=True)
def mortal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that are made from now on die of one message that the log refuses."""
    monkeypatch.setitem(client.SETTINGS, "enable.gapless.guarantee", True)


@pytest.fixture
def mine(narrow_log: EmbeddedLog) -> Iterator[Client]:
    made = Client(KafkaAddress(narrow_log.bootstrap), SystemClock(), delivery_timeout_s=PATIENCE_S)
    yield made
    made.close()


def send(by: Client, value: bytes) -> list[Word]:
    """Send one message; the list gets Kafka's word on it."""
    words: list[Word] = []
    by.send(topics.INCREMENTS, 0, value, None, on_stored=words.append, on_unknown=words.append)
    return words


def word(words: list[Word]) -> Word:
    wait_until(lambda: words, "Kafka's word", timeout_s=PATIENCE_S)
    [one] = words
    return one


def value_at(kafka: str, offset: Word) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "-", "log_level": 0})
    try:
        assert isinstance(offset, int)
        consumer.assign([TopicPartition(topics.INCREMENTS, 0, offset)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        return message.value()
    finally:
        consumer.close()


def listeners() -> int:
    """How many connections of this process wait for Kafka's word."""
    return sum(thread.name == "tally-delivery" for thread in threading.enumerate())


def test_one_that_died_goes_on(narrow_log: EmbeddedLog, mine: Client) -> None:
    before = send(mine, b"before")
    assert isinstance(word(before), int)
    assert "too large" in str(word(send(mine, TOO_LARGE)))

    assert value_at(narrow_log.bootstrap, word(send(mine, b"after"))) == b"after"


def test_it_dies_again_and_goes_on_again(narrow_log: EmbeddedLog, mine: Client) -> None:
    for number in range(3):
        assert "too large" in str(word(send(mine, TOO_LARGE)))
        value = f"life {number}".encode()
        assert value_at(narrow_log.bootstrap, word(send(mine, value))) == value


def test_everything_sent_around_its_death_gets_one_word(
    narrow_log: EmbeddedLog, mine: Client
) -> None:
    values = [f"around {n}".encode() for n in range(100)]
    values[50] = TOO_LARGE
    sent = [send(mine, value) for value in values]
    sent.append(send(mine, b"around all"))
    found = [word(words) for words in sent]

    assert isinstance(found[50], str)
    for value, told in zip([*values, b"around all"], found, strict=True):
        if isinstance(told, int):
            assert value_at(narrow_log.bootstrap, told) == value
    assert [len(words) for words in sent] == [1] * 101


def test_what_died_is_not_left_behind(mine: Client) -> None:
    others = listeners() - 1
    for _ in range(3):
        word(send(mine, TOO_LARGE))
        word(send(mine, b"on"))
    wait_until(lambda: listeners() == others + 1, "only the last one listens", timeout_s=PATIENCE_S)
    word(send(mine, TOO_LARGE))
    mine.close()

    assert listeners() == others


def test_threads_that_find_it_dead_together_make_one_of_it(mine: Client) -> None:
    others = listeners() - 1
    word(send(mine, TOO_LARGE))
    with ThreadPoolExecutor(8) as pool:
        words = list(pool.map(lambda n: send(mine, f"thread {n}".encode()), range(200)))
        stored = {word(one) for one in words}

    assert len(stored) == 200
    wait_until(lambda: listeners() == others + 1, "one of it", timeout_s=PATIENCE_S)


def test_one_that_died_is_not_revived_after_closing(mine: Client) -> None:
    others = listeners() - 1
    word(send(mine, TOO_LARGE))
    mine.close()
    with pytest.raises(TryAgainError, match="took no event"):
        send(mine, b"late")

    assert listeners() == others


def test_its_death_is_told_in_one_line(mine: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        word(send(mine, TOO_LARGE))
        word(send(mine, b"on"))

    assert ["going on with a new" in record.message for record in caplog.records] == [True]
    assert caplog.records[0].exc_info is None


def test_a_producer_goes_on(narrow_log: EmbeddedLog) -> None:
    told: list[Unknown] = []
    with Producer(narrow_log.bootstrap, on_unknown=told.append) as producer:
        large = producer.increment_many({"counter": [f"died:{n}" for n in range(5_000)]})
        with pytest.raises(UnknownDeliveryError, match="too large"):
            large.places(PATIENCE_S)
        producer.increment("died:after", 7, at=AT_MS).places(PATIENCE_S)

    assert (producer.stored, producer.unknown, producer.not_stored) == (1, 5_000, 0)
    assert sum(one.increments for one in told) == 5_000
    [row] = rows(narrow_log.bootstrap, "died")
    assert (row.event["counter"], row.event["delta"]) == ("died:after", 7)


def test_a_producer_of_lines_goes_on(narrow_log: EmbeddedLog) -> None:
    columns = pa.Table.from_pylist([{"counter": "lines:a", **EVENT}], FRAME_SCHEMA)
    line = json.dumps({"counter": "lines:a", "at": AT_MS}).encode()
    others = listeners()
    producer = LineProducer(KafkaAddress(narrow_log.bootstrap))
    try:
        with pytest.raises(UnknownDeliveryError, match="too large"):
            producer.send([TOO_LARGE], columns).places(PATIENCE_S)
        [(partition, offset)] = producer.send([line], columns).places(PATIENCE_S).items()
    finally:
        producer.close()

    assert (producer.unknown, partition) == (1, 0)
    assert value_at(narrow_log.bootstrap, offset) == line
    assert listeners() == others
