"""The topic from its beginning, by confluent-kafka, for contestants that need to be fed.

`consume` of thousands at a time is the client's quickest call, and its queue is ten times the
default, so that fetching goes on while a batch is being counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.race.contract import Task

AT_ONCE = 10_000
SILENCE_S = 30.0
SETTINGS: dict[str, str | int | bool] = {
    "group.id": "race",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "queued.min.messages": 1_000_000,
    "log_level": 0,
}


def batches(task: Task) -> Iterator[list[bytes]]:
    """The values of all events, thousands at a time, in the order of each partition.

    The first batch, which starts clocks and is not counted as work, is a hundredth of them at most.
    Blocks while it waits for the broker; raises TimeoutError when nothing comes for a while.
    """
    consumer = Consumer({"bootstrap.servers": task.kafka, **SETTINGS})
    consumer.assign([TopicPartition(task.topic, number, 0) for number in range(task.partitions)])
    left, wanted = task.events, min(AT_ONCE, max(1, task.events // 100))
    while left:
        # It waits until it has so many, so it is never asked for more than there are.
        messages = consumer.consume(min(wanted, left), timeout=SILENCE_S)
        if not messages:
            raise TimeoutError(f"no event for {SILENCE_S:g} s, with {left} still to come")
        left, wanted = left - len(messages), AT_ONCE
        yield [message.value() or b"" for message in messages]
    consumer.close()
