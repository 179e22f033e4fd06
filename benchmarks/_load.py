"""A producer that sends events at a steady rate, in a process of its own.

Run by benchmarks.freshness: python -m benchmarks._load KAFKA RATE SECONDS json|frames PARTITIONS
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from itertools import cycle, zip_longest

from confluent_kafka import Producer

from benchmarks._events import Event, by_partition, make_events
from benchmarks._servers import TOPIC
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame

EVENTS = 200_000
EVENTS_PER_FRAME = 5_000
TICK_S = 0.02
SEND_TIMEOUT_S = 60
FIELDS = ("counter", "delta", "member", "region")
"""No time: the log's own makes windows follow the clock, as those of a live stream do."""


@dataclass(frozen=True, slots=True)
class Message:
    """Something to send, and what it adds."""

    partition: int
    value: bytes
    events: int
    net: int


def messages(partitions: int, at_once: int) -> list[Message]:
    """The same events as everywhere, one to a message or so many to a frame; partitions in turn."""
    parts = [
        [
            _message(number, part[start : start + at_once], at_once > 1)
            for start in range(0, len(part), at_once)
        ]
        for number, part in enumerate(by_partition(make_events(EVENTS, 0), partitions))
    ]
    in_turn = zip_longest(*parts)
    return [message for row in in_turn for message in row if message is not None]


def _message(partition: int, events: list[Event], frame: bool) -> Message:
    if frame:
        columns = {name: [getattr(event, name) for event in events] for name in FIELDS}
        value = encode_frame(columns)
    else:
        document = {name: getattr(events[0], name) for name in FIELDS}
        value = json.dumps(document, separators=(",", ":")).encode()
    return Message(partition, value, len(events), sum(event.delta for event in events))


def send(kafka: str, rate: float, seconds: float, prepared: list[Message]) -> dict[str, float]:
    """Send by the clock, so that a late tick sends more; raises RuntimeError if not all arrive."""
    producer = Producer(
        {
            "bootstrap.servers": kafka,
            "enable.idempotence": True,
            "linger.ms": 10,
            "batch.size": 256 * 1024,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    frames = any(message.events > 1 for message in prepared)
    headers: dict[str, str | bytes | None] | None = (
        {"content-type": FRAME_CONTENT_TYPE} if frames else None
    )
    sent, net, source = 0, 0, cycle(prepared)
    began_s = time.monotonic()
    while (passed_s := time.monotonic() - began_s) < seconds:
        while sent < passed_s * rate:
            message = next(source)
            try:
                producer.produce(TOPIC, message.value, partition=message.partition, headers=headers)
            except BufferError:  # The log is slower than the rate: the table will show it.
                producer.poll(TICK_S)
                break
            sent += message.events
            net += message.net
        producer.poll(0)
        time.sleep(TICK_S)
    took_s = time.monotonic() - began_s
    if producer.flush(SEND_TIMEOUT_S):
        raise RuntimeError("the log did not confirm all events")
    return {"sent": sent, "net": net, "per_s": sent / took_s}


def main() -> None:
    kafka, rate, seconds, form, partitions = sys.argv[1:]
    at_once = EVENTS_PER_FRAME if form == "frames" else 1
    prepared = messages(int(partitions), at_once)
    print("load begins", flush=True)
    print(
        f"load ended {json.dumps(send(kafka, float(rate), float(seconds), prepared))}", flush=True
    )


if __name__ == "__main__":
    main()
