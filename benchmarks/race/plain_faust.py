"""Plain Faust: an agent that counts into a Table, as its manual shows one.

Run by the race as `python -m benchmarks.race.plain_faust`, in an environment with what Faust's
`fast` bundle brings. Settings, and why:

- uvloop and orjson, which Faust's manual names as what makes it quicker;
- the table in memory, not RocksDB: it is the quicker store, with the same changelog topic;
- acknowledgements and commits as they are by default;
- no web server, no leader topic: nobody asks them.

The clock stops when the last event is in the table; its changelog may still be on the way.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import mode.loop

mode.loop.use("uvloop")  # before Faust is imported: it decides which loop Faust finds

import faust  # noqa: E402

from benchmarks.race.contract import Stopwatch, count_name, task_of  # noqa: E402

if TYPE_CHECKING:
    from faust.types import StreamT


def main() -> None:
    task = task_of()
    app = faust.App(
        f"race-{task.result.stem}",
        broker=f"kafka://{task.kafka}",
        datadir=str(task.folder),
        store="memory://",
        web_enabled=False,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
    )
    source = app.topic(task.topic, value_serializer="json")
    counts: Any = app.Table("counts", default=int, partitions=task.partitions)
    watch = Stopwatch()

    @app.agent(source)
    async def count(stream: StreamT[Any]) -> None:
        async for event in stream:
            watch.saw(1)
            counts[count_name(event["counter"], event["at"])] += event["delta"]
            if watch.events == task.events:
                watch.write(task.result, dict(counts))
                os._exit(0)

    worker = faust.Worker(app, quiet=True, redirect_stdouts=False, loglevel="ERROR")
    worker.spinner = None
    worker.execute_from_commandline()


if __name__ == "__main__":
    main()
