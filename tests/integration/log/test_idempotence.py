"""Idempotent producers: a batch is stored once however often it is sent, and a gap is refused."""

import time

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tests.integration.log.clients import IDEMPOTENT, Clients
from tests.integration.log.wire import Wire
from tests.kit.brokers import Broker

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
CORRUPT_MESSAGE = 2


def batch(values: list[bytes], *, producer: tuple[int, int], sequence: int) -> bytes:
    """An uncompressed record batch as this producer would send it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        batch_size=1_000_000,
    )
    now_ms = time.time_ns() // 1_000_000
    for position, value in enumerate(values):
        builder.append(position, timestamp=now_ms, key=None, value=value, headers=[])
    return bytes(builder.build())


def test_many_batches_in_flight_are_stored_once_and_in_order(clients: Clients) -> None:
    topic = clients.topic()
    values = [b"%d" % n for n in range(20_000)]
    config = IDEMPOTENT | {"linger.ms": 0, "batch.num.messages": 50}
    delivery = clients.produce(topic, values, config=config)
    assert delivery.offsets() == list(range(20_000))
    assert [message.value() for message in clients.read(topic, 20_000)] == values


def test_every_producer_gets_an_id_of_its_own(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        ids = [wire.init_producer_id() for _ in range(5)]
    assert len({producer for producer, _ in ids}) == 5
    assert {epoch for _, epoch in ids} == {0}


def test_a_repeated_batch_is_answered_with_its_first_offset_and_not_stored(
    broker: Broker, clients: Clients
) -> None:
    topic = clients.topic()
    with Wire(broker.bootstrap) as wire:
        producer = wire.init_producer_id()
        batches = [
            batch([b"a%d" % n, b"b%d" % n], producer=producer, sequence=2 * n) for n in range(5)
        ]
        assert [wire.produce(topic, sent) for sent in batches] == [(0, 2 * n) for n in range(5)]
        assert [wire.produce(topic, sent) for sent in batches] == [(0, 2 * n) for n in range(5)]
        assert wire.produce(topic, batch([b"end"], producer=producer, sequence=10)) == (0, 10)
    expected = [b"%b%d" % (letter, n) for n in range(5) for letter in (b"a", b"b")]
    assert [m.value() for m in clients.read_to_end(topic)] == [*expected, b"end"]


def test_a_gap_in_the_sequence_is_refused(broker: Broker, clients: Clients) -> None:
    topic = clients.topic()
    with Wire(broker.bootstrap) as wire:
        producer = wire.init_producer_id()
        assert wire.produce(topic, batch([b"0"], producer=producer, sequence=0))[0] == 0
        skipped = wire.produce(topic, batch([b"2"], producer=producer, sequence=2))
        assert skipped[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert wire.produce(topic, batch([b"1"], producer=producer, sequence=1)) == (0, 1)
    assert [m.value() for m in clients.read_to_end(topic)] == [b"0", b"1"]


def test_an_older_epoch_is_fenced_by_a_newer_one(broker: Broker, clients: Clients) -> None:
    topic = clients.topic()
    with Wire(broker.bootstrap) as wire:
        producer_id, epoch = wire.init_producer_id()
        newer = (producer_id, epoch + 1)
        assert wire.produce(topic, batch([b"new"], producer=newer, sequence=0)) == (0, 0)
        old = batch([b"old"], producer=(producer_id, epoch), sequence=0)
        assert wire.produce(topic, old)[0] == INVALID_PRODUCER_EPOCH
    assert [m.value() for m in clients.read_to_end(topic)] == [b"new"]


@pytest.mark.parametrize("position", [25, -1], ids=["in the header", "in the records"])
def test_a_batch_with_a_wrong_checksum_is_refused(
    broker: Broker, clients: Clients, position: int
) -> None:
    topic = clients.topic()
    with Wire(broker.bootstrap) as wire:
        sound = batch([b"value"], producer=(-1, -1), sequence=-1)
        damaged = bytearray(sound)
        damaged[position] ^= 0x10
        assert wire.produce(topic, bytes(damaged))[0] == CORRUPT_MESSAGE
        assert wire.produce(topic, sound) == (0, 0)
    assert [m.value() for m in clients.read_to_end(topic)] == [b"value"]


def test_two_idempotent_producers_do_not_disturb_each_other(clients: Clients) -> None:
    topic = clients.topic()
    first, second = (clients.producer(IDEMPOTENT | {"linger.ms": 0}) for _ in range(2))
    for n in range(200):
        first.produce(topic, b"first %d" % n, partition=0)
        second.produce(topic, b"second %d" % n, partition=0)
    assert (first.flush(20), second.flush(20)) == (0, 0)
    read = [message.value() or b"" for message in clients.read_to_end(topic)]
    for name in (b"first", b"second"):
        assert [v for v in read if v.startswith(name)] == [b"%b %d" % (name, n) for n in range(200)]
