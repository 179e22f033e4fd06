"""Quix Streams: a tumbling window of a minute that sums, kept in RocksDB with its changelog topic.

Run by the race as `python -m benchmarks.race.quix`, in an environment of its own. Settings, and
why:

- events are keyed by their counter already, so nothing is repartitioned;
- the state's directory, changelog and commits every 5 s as they are by default, at least once:
  exactly once would cost more;
- `current()`, since windows of old events would close only when the same key comes again. Its
  updates go to a dict, which is how the result is read; nothing is produced of them;
- no log lines.

The clock stops when `run` has returned, after its last checkpoint.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quixstreams import Application

from benchmarks.race.contract import Stopwatch, count_name, task_of


def main() -> None:
    task, watch, counts = task_of(), Stopwatch(), dict[str, int]()

    def processed(*_place: object) -> None:
        watch.saw(1)
        if watch.events == task.events:
            app.stop()

    app = Application(
        broker_address=task.kafka,
        consumer_group=f"race-{task.result.stem}",
        auto_offset_reset="earliest",
        state_dir=task.folder / "state",
        on_message_processed=processed,
        loglevel=None,
    )
    topic = app.topic(
        task.topic,
        key_deserializer="str",
        value_deserializer="json",
        timestamp_extractor=lambda value, *_rest: int(value["at"]),
    )

    def keep(value: dict[str, Any], key: str, *_rest: object) -> None:
        counts[count_name(key, value["start"])] = value["value"]

    deltas = app.dataframe(topic).apply(lambda event: event["delta"])
    windows = deltas.tumbling_window(timedelta(minutes=1)).sum().current()
    windows.update(keep, metadata=True)
    app.run()
    watch.stop()
    watch.write(task.result, counts)


if __name__ == "__main__":
    main()
