"""What people would use instead of Tally, each as a process of its own that counts one log.

Run by benchmarks.worker as `python -m benchmarks._peers NAME KAFKA TOPIC EVENTS RESULT`. The clock
starts when the first events are in hand, so that start-up and joining a group are not measured, and
those first events are not counted as work. RESULT gets one JSON document: events, seconds, how many
events of each partition, and the counts, or none where the contestant does not count.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faust
from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from faust.types import StreamT

WINDOW_MS = 60_000
AT_ONCE = 10_000
SILENCE_S = 30.0


class Stopwatch:
    """Measures from the first events in hand to the last."""

    def __init__(self) -> None:
        self._started_s = 0.0
        self._first_events = 0
        self.events = 0

    def saw(self, events: int) -> None:
        """So many more events are in hand."""
        if not self.events:
            self._started_s = time.perf_counter()
            self._first_events = events
        self.events += events

    def write(self, path: Path, partitions: dict[int, int], counts: dict[str, int] | None) -> None:
        """Stop, and say what was measured. The file appears whole or not at all."""
        seconds = time.perf_counter() - self._started_s
        document = {
            "events": self.events - self._first_events,
            "seconds": seconds,
            "partitions": partitions,
            "counts": counts,
        }
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(document))
        unfinished.rename(path)


def count_name(event: dict[str, Any]) -> str:
    """Counter and minute as one text, which JSON and Faust's tables take as a key."""
    return f"{event['counter']} {event['at'] // WINDOW_MS}"


def consume(kafka: str, topic: str, events: int, result: Path, *, counting: bool) -> None:
    """confluent-kafka in batches; with json.loads and a dict, or nothing at all."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "benchmark-peer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    found = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
    watch = Stopwatch()
    counts: dict[str, int] = {}
    while watch.events < events:
        messages = consumer.consume(AT_ONCE, timeout=SILENCE_S)
        if not messages:
            raise TimeoutError(f"no message for {SILENCE_S:g} s after {watch.events}")
        watch.saw(len(messages))
        if counting:
            for message in messages:
                event = json.loads(message.value())  # type: ignore[arg-type]  # each has a value
                name = count_name(event)
                counts[name] = counts.get(name, 0) + event["delta"]
    ends = {tp.partition: tp.offset for tp in consumer.position(consumer.assignment())}
    watch.write(result, ends, counts if counting else None)
    consumer.close()


def run_faust(kafka: str, topic: str, events: int, result: Path, *, table: bool) -> None:
    """A Faust agent as its manual shows one; ends the process after so many events.

    Without a table it keeps its counts in a dict, which a restart would lose.
    """
    app = faust.App(
        f"benchmark-{result.stem}",
        broker=f"kafka://{kafka}",
        store="memory://",
        web_enabled=False,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
    )
    source = app.topic(topic, value_serializer="json")
    counts: Any = app.Table("counts", default=int, partitions=4) if table else {}
    watch = Stopwatch()
    partitions: dict[int, int] = {}

    @app.agent(source)
    async def count(stream: StreamT[Any]) -> None:
        async for event in stream.events():
            watch.saw(1)
            value, partition = event.value, event.message.partition
            name = count_name(value)
            counts[name] = (counts[name] if table else counts.get(name, 0)) + value["delta"]
            partitions[partition] = partitions.get(partition, 0) + 1
            if watch.events == events:
                watch.write(result, partitions, dict(counts))
                os._exit(0)

    worker = faust.Worker(app, quiet=True, redirect_stdouts=False, loglevel="ERROR")
    worker.spinner = None
    worker.execute_from_commandline()


def main() -> None:
    name, kafka, topic, events, result = sys.argv[1:]
    if name in {"confluent", "bare"}:
        consume(kafka, topic, int(events), Path(result), counting=name == "confluent")
    else:
        run_faust(kafka, topic, int(events), Path(result), table=name == "faust-table")


if __name__ == "__main__":
    main()
