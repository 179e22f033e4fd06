"""What people would write instead of a replay: a confluent-kafka consumer that sums a dict.

Run by benchmarks.replay as `python -m benchmarks._replay_peers HOW KAFKA TOPIC MESSAGES RESULT`.
The clock runs from the first messages in hand, which are not counted as work, to the last.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition

from benchmarks.race.contract import WINDOW_MS, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    Counts = dict[str, int]
    Count = Callable[[Counts, list[bytes]], None]

JSON_AT_ONCE = 10_000
FRAMES_AT_ONCE = 16
SILENCE_S = 30.0


class Increment(msgspec.Struct):
    """The fields that are summed by."""

    counter: str
    at: int
    delta: int = 1


def by_json(counts: Counts, values: list[bytes]) -> None:
    """Parse as people do: every field of every event."""
    for value in values:
        event = json.loads(value)
        name = f"{event['counter']} {event['at'] // WINDOW_MS}"
        counts[name] = counts.get(name, 0) + event["delta"]


def by_msgspec(counts: Counts, values: list[bytes]) -> None:
    """Parse the three fields that matter, into a struct."""
    decode = msgspec.json.Decoder(Increment).decode
    for event in map(decode, values):
        name = f"{event.counter} {event.at // WINDOW_MS}"
        counts[name] = counts.get(name, 0) + event.delta


def by_arrow(counts: Counts, values: list[bytes]) -> None:
    """Read frames and let Arrow sum them, a few frames at a time."""
    tables = []
    for value in values:
        with pa.ipc.open_stream(value) as stream:
            table = stream.read_all()
        delta = table["delta"] if "delta" in table.column_names else pa.repeat(1, len(table))
        minute = pc.divide(table["at"], WINDOW_MS)
        counter = table["counter"].cast(pa.string())
        tables.append(pa.table({"counter": counter, "minute": minute, "delta": delta}))
    summed = pa.concat_tables(tables).group_by(["counter", "minute"]).aggregate([("delta", "sum")])
    columns = (summed[name].to_pylist() for name in ("counter", "minute", "delta_sum"))
    for counter, minute, net in zip(*columns, strict=True):
        name = f"{counter} {minute}"
        counts[name] = counts.get(name, 0) + net


HOW: dict[str, tuple[Count, int]] = {
    "json.loads": (by_json, JSON_AT_ONCE),
    "msgspec": (by_msgspec, JSON_AT_ONCE),
    "pyarrow": (by_arrow, FRAMES_AT_ONCE),
}


def main() -> None:
    how, kafka, topic, messages, result = sys.argv[1:]
    count, at_once = HOW[how]
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
    watch, counts, wanted = Stopwatch(), dict[str, int](), int(messages)
    while watch.events < wanted:
        # It waits until it has so many, so it is never asked for more than there are.
        got = consumer.consume(min(at_once, wanted - watch.events), timeout=SILENCE_S)
        if not got:
            raise TimeoutError(f"no message for {SILENCE_S:g} s after {watch.events}")
        watch.saw(len(got))
        count(counts, [message.value() or b"" for message in got])
    watch.write(Path(result), counts)
    consumer.close()


if __name__ == "__main__":
    main()
