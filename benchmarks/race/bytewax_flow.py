"""Bytewax: `fold_window` over tumbling windows of a minute, from its Kafka source.

Run by the race as `python -m benchmarks.race.bytewax_flow`, in an environment of its own. Settings,
and why:

- `ordered=False`, which its manual offers where the order within a window does not matter: a sum;
- no waking up to close windows: events are old, so all would be due at once and always. Windows
  close by newer events, or at the end of the log;
- batches of 1 000, its default, which its manual calls right for high throughput;
- one worker in one process, and no recovery store: its threads share one interpreter's lock, and
  snapshots would cost more.

The clock stops when the flow has ended, with every window in the sink's dict.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from benchmarks.race.contract import Stopwatch, Task, task_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

Update = tuple[datetime, int]
"""When it happened, and how much."""


class Kept(DynamicSink):  # type: ignore[misc]  # Bytewax is not in the environment that is checked
    """Windows that closed, in a dict."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def build(self, *_place: object) -> Any:
        counts = self.counts

        class Part(StatelessSinkPartition):  # type: ignore[misc]
            def write_batch(self, items: list[tuple[str, tuple[int, int]]]) -> None:
                # Windows are numbered from `align_to`, so a window's number is its minute.
                for counter, (minute, net) in items:
                    counts[f"{counter} {minute}"] = net

        return Part()


def flow_of(task: Task, watch: Stopwatch, sink: Kept) -> Dataflow:
    """The whole flow: read, parse, sum by counter and minute, keep."""

    def parse(message: KafkaSourceMessage) -> tuple[str, Update]:
        watch.saw(1)
        event = json.loads(message.value)
        at = datetime.fromtimestamp(event["at"] / 1000, UTC)
        return event["counter"], (at, event["delta"])

    clock = EventClock(
        ts_getter=lambda update: update[0],
        wait_for_system_duration=MINUTE,
        to_system_utc=lambda _at: None,
    )
    flow = Dataflow("race")
    source = KafkaSource([task.kafka], [task.topic], tail=False, batch_size=1_000)
    updates = op.map("parse", op.input("in", flow, source), parse)
    windows = fold_window(
        "sum",
        updates,
        clock,
        TumblingWindower(align_to=EPOCH, length=MINUTE),
        builder=int,
        folder=lambda net, update: net + update[1],
        merger=lambda one, other: one + other,
        ordered=False,
    )
    op.output("out", windows.down, sink)
    return flow


def main() -> None:
    task, watch, sink = task_of(), Stopwatch(), Kept()
    run_main(flow_of(task, watch, sink))
    watch.stop()
    watch.write(task.result, sink.counts)


if __name__ == "__main__":
    main()
