"""Sends the traffic of a soak at a steady rate, in a process of its own.

Run by benchmarks.soak: python -m benchmarks._soak_load KAFKA RATE SECONDS json|frames PARTITIONS
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Producer

from benchmarks._servers import TOPIC
from benchmarks._soak_traffic import Traffic
from schemas.frames import FRAME_CONTENT_TYPE, FRAME_SCHEMA, frame_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks._soak_traffic import Rows

BATCH = {"json": 2_000, "frames": 20_000}
"""Events that are made at a time; a frame has those of one partition."""

TICK_S = 0.02
SEND_TIMEOUT_S = 60

Message = tuple[int, bytes]
"""The partition it goes to, and what it is."""


def messages(batch: Sequence[Rows], form: str, partitions: int) -> Iterator[Message]:
    """A batch as documents, or as one frame for each partition."""
    if form == "json":
        for rows in batch:
            yield from zip(rows.partitions.tolist(), rows.as_json(), strict=True)
        return
    fields = [field for field in FRAME_SCHEMA if field.name != "at"]
    for partition in range(partitions):
        tables = [pa.table(rows.as_columns(partition)) for rows in batch]
        table = pa.concat_tables(tables).cast(pa.schema(fields)).combine_chunks()
        yield partition, frame_bytes(table.to_batches()[0])


class Sender:
    """Puts batches into the log; blocks while the client's queue is full."""

    def __init__(self, kafka: str, form: str, partitions: int) -> None:
        self._form = form
        self._partitions = partitions
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "enable.idempotence": True,
                "linger.ms": 10,
                "batch.size": 256 * 1024,
                "queue.buffering.max.messages": 100_000,
                "log_level": 0,
            }
        )
        self._headers: dict[str, str | bytes | None] | None = (
            {"content-type": FRAME_CONTENT_TYPE} if form == "frames" else None
        )
        self.sent = 0

    def send(self, batch: Sequence[Rows]) -> None:
        for partition, value in messages(batch, self._form, self._partitions):
            while True:
                try:
                    self._producer.produce(TOPIC, value, partition=partition, headers=self._headers)
                except BufferError:
                    self._producer.poll(TICK_S)
                else:
                    break
        self._producer.poll(0)
        self.sent += sum(len(rows.deltas) for rows in batch)

    def finish(self) -> None:
        """Raises RuntimeError if the log has not confirmed everything."""
        if self._producer.flush(SEND_TIMEOUT_S):
            raise RuntimeError("the log did not confirm all events")


def fill(kafka: str, events: int, form: str, partitions: int) -> int:
    """As fast as the log takes them; how many it were. Blocks."""
    traffic, sender = Traffic(partitions, 0), Sender(kafka, form, partitions)
    while sender.sent < events:
        sender.send(traffic.batch(BATCH[form], 0))
    sender.finish()
    return sender.sent


def send(kafka: str, rate: float, seconds: float, form: str, partitions: int) -> dict[str, object]:
    """By the clock, so that a late tick sends more. What was sent, and what it comes to."""
    traffic, sender = Traffic(partitions, seconds), Sender(kafka, form, partitions)
    began_s, cpu_s = time.monotonic(), time.process_time()
    while (passed_s := time.monotonic() - began_s) < seconds:
        if sender.sent < passed_s * rate:
            sender.send(traffic.batch(BATCH[form], passed_s))
        else:
            time.sleep(TICK_S)
    took_s = time.monotonic() - began_s
    sender.finish()
    return {
        "sent": sender.sent,
        "per_s": sender.sent / took_s,
        "net": traffic.net,
        "processor": (time.process_time() - cpu_s) / took_s,
    }


def main() -> None:
    kafka, rate, seconds, form, partitions = sys.argv[1:]
    print("load begins", flush=True)
    told = send(kafka, float(rate), float(seconds), form, int(partitions))
    print(f"load ended {json.dumps(told)}", flush=True)


if __name__ == "__main__":
    main()
