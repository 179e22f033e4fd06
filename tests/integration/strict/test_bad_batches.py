"""Batches that no client writes, in the log of commands."""

import struct

import pytest
from confluent_kafka import Consumer, TopicPartition
from crc32c import crc32c

from tests.integration.log.wire import Wire
from tests.integration.strict.conftest import Site
from tests.kit.odd_headers import odd_batch
from tests.kit.waiting import eventually

TIMEOUT_S = 20


def _torn() -> bytes:
    """A batch that says it has more records than it has; its checksum holds."""
    batch = bytearray(odd_batch(b"a", b"b"))
    batch[57:61] = struct.pack(">i", 3)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


def _unpackable() -> bytes:
    """A batch that says it is compressed, and is not."""
    batch = bytearray(odd_batch(b"a", b"b"))
    batch[22] |= 4
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


@pytest.mark.parametrize(
    "batch",
    [odd_batch(b"no command"), _torn(), _unpackable()],
    ids=["a name that is no text", "fewer records than it says", "not compressed"],
)
def test_a_batch_that_cannot_be_read_stops_no_decision(site: Site, batch: bytes) -> None:
    counters = [f"stock:beside-{crc32c(batch)}-{number}" for number in range(6)]
    for counter in counters:
        assert site.decided(counter, "increment", delta=3, id="in")["remaining"] == 3
    with Wire(site.tally.kafka) as wire:
        errors = {wire.produce("tally.strict", batch, partition)[0] for partition in range(2)}
    assert errors in ({0}, {2}, {87}), "stored, or refused as corrupt or invalid"
    for counter in counters:
        assert site.decided(counter, "decrement", id="out")["remaining"] == 2


def test_a_batch_that_cannot_be_read_is_passed_as_a_whole(site: Site) -> None:
    """All but its first offset waited to be decided, and were missed when the log deleted them."""
    with Wire(site.tally.kafka) as wire:
        errors = {
            wire.produce("tally.strict", _unpackable(), partition)[0] for partition in range(2)
        }
    assert errors in ({0}, {2}, {87}), "stored, or refused as corrupt or invalid"
    settings = {"bootstrap.servers": site.tally.kafka, "group.id": "tally-strict", "log_level": 0}
    consumer = Consumer(settings)
    places = [TopicPartition("tally.strict", partition) for partition in range(2)]
    try:
        ends = [consumer.get_watermark_offsets(one, timeout=TIMEOUT_S)[1] for one in places]

        def is_passed() -> bool:
            return [one.offset for one in consumer.committed(places, timeout=TIMEOUT_S)] == ends

        eventually(is_passed, f"offsets {ends} are committed")
    finally:
        consumer.close()
