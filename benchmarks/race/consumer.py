"""confluent-kafka in batches: thrown away, which is the ceiling, or summed in a dict by hand.

Run by the race as `python -m benchmarks.race.consumer bare|dict`. `consume` of thousands at a time
is the client's quickest call. Its queue is ten times the default, so that fetching is never what it
waits for: with the default, librdkafka stops fetching a partition of which it has 100 000 messages
in all, and with four of them pauses and resumes.
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
    "log_level": 0,
}


def main() -> None:
    task, counting = task_of(), sys.argv[1:] == ["dict"]
    consumer = Consumer({"bootstrap.servers": task.kafka, **SETTINGS})
    consumer.assign([TopicPartition(task.topic, number, 0) for number in range(task.partitions)])
    watch, counts = Stopwatch(), dict[str, int]()
    while watch.events < task.events:
        # It waits until it has so many, so it is never asked for more than there are.
        messages = consumer.consume(min(AT_ONCE, task.events - watch.events), timeout=SILENCE_S)
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
