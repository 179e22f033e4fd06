"""What the log holds, read with nothing of Tally: confluent-kafka and pyarrow alone."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

TOPIC = "tally.increments"
TIMEOUT_S = 30
FRAME_BEGIN = b"\xff\xff\xff\xff"
PLAIN = {"delta": 1, "member": None, "region": "", "id": None}


class Row(NamedTuple):
    """One row of a frame, or a line, and where it is."""

    partition: int
    offset: int
    event: dict[str, Any]


def rows(kafka: str, family: str) -> Iterator[Row]:
    """The rows of a family's counters that the log has now."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "-",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions
        for partition in partitions:
            place = TopicPartition(TOPIC, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            consumer.assign([place])
            offset = -1
            while offset < end - 1:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"partition {partition} ended at {offset}, not {end}"
                assert message.error() is None, message.error()
                offset = message.offset() or 0
                for event in _events(message.value()):
                    if str(event.get("counter", "")).startswith(f"{family}:"):
                        yield Row(partition, offset, event)
    finally:
        consumer.close()


def _events(value: Any) -> Iterator[dict[str, Any]]:
    """Those of a frame, or the one of a line; other tests send other things."""
    if value.startswith(b"{"):
        yield {**PLAIN, **json.loads(value)}
    if not value.startswith(FRAME_BEGIN):
        return
    with pa.ipc.open_stream(value) as stream:
        for event in stream.read_all().to_pylist():
            yield {**PLAIN, **event}


def sums(events: Iterator[Row] | list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """What is counted: by cell and sign, and by member and id where there is one."""
    found: Counter[tuple[Any, ...]] = Counter()
    for one in events:
        event = one.event if isinstance(one, Row) else {**PLAIN, **one}
        minute = event["at"] // 60_000
        key = (event["counter"], event["region"], minute, event["delta"] > 0)
        found[*key, event["member"], event["id"]] += event["delta"]
    return found
