"""confluent-kafka in batches: thrown away, which is the ceiling, or summed in a dict by hand.

Run by the race as `python -m benchmarks.race.consumer bare|dict`. `consume` of thousands at a time
is the client's quickest call. librdkafka stops fetching while it has 100,000 messages, and by
default looks again after a second: a quick reader has emptied its queue long before, and read
200,000 a second of a million that it can. It looks again after 10 ms here. A queue of a million
messages was as quick, and took three times the memory.
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer, TopicPartition

from benchmarks.race.contract import Stopwatch, count_name, task_of

AT_ONCE = 10_000
SILENCE_S = 30.0
SETTINGS: dict[str, str | int | bool] = {
    "group.id": "race",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.queue.backoff.ms": 10,
    "log_level": 0,
}


def main() -> None:
    task, counting = task_of(), sys.argv[1:] == ["dict"]
    consumer = Consumer({"bootstrap.servers": task.kafka, **SETTINGS})
    consumer.assign([TopicPartition(task.topic, number, 0) for number in range(task.partitions)])
    watch, counts = Stopwatch(), dict[str, int]()
    # The first batch starts the clock and is not counted as work, so it is a small one.
    at_once = min(AT_ONCE, max(1, task.events // 100))
    while watch.events < task.events:
        # It waits until it has so many, so it is never asked for more than there are.
        messages = consumer.consume(min(at_once, task.events - watch.events), timeout=SILENCE_S)
        at_once = AT_ONCE
        if not messages:
            raise TimeoutError(f"no message for {SILENCE_S:g} s after {watch.events}")
        watch.saw(len(messages))
        if counting:
            for message in messages:
                event = json.loads(message.value() or b"")
                name = count_name(event["counter"], event["at"])
                counts[name] = counts.get(name, 0) + event["delta"]
    watch.write(task.result, counts if counting else None)
    consumer.close()


if __name__ == "__main__":
    main()
