"""Where a worker's time goes, stage by stage, while it counts a filled log.

Run: python -m benchmarks.profile [json|frames] [--events N] [--places N] [--kafka] [--json FILE]

A thread within the worker looks at the stacks of the others. The README beside this file says how
to read the table.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import clickhouse_connect

from benchmarks._builds import cells_of
from benchmarks._growth_case import BATCH, EVENTS_PER_MINUTE
from benchmarks._kit import Outcome, write_json
from benchmarks._profile_sampler import SAMPLES, read
from benchmarks._profile_stages import STAGES
from benchmarks._replay_log import clickhouse, filled_logs
from benchmarks._replay_stream import WINDOW_MS, Stream
from benchmarks._tally_run import Site, count_log

if TYPE_CHECKING:
    from benchmarks._profile_sampler import Place
    from benchmarks._tally_run import Counted

PARTITIONS = 8
EVENTS = {"json": 2_000_000, "frames": 5_000_000}


def profiled(
    form: str, events: int, folder: Path, *, real_kafka: bool
) -> tuple[dict[Place, float], Counted]:
    """The worker's seconds by place, between ready and the end. Every cell must be right."""
    minutes = -(-events // EVENTS_PER_MINUTE)
    start_ms = int(time.time() * 1000) - (minutes + 2) * WINDOW_MS
    batch = BATCH["frames" if form == "frames" else "JSON"]
    stream = Stream(events, batch, minutes, PARTITIONS, start_ms, members=True)
    messages = stream.frames() if form == "frames" else stream.json()
    samples = folder / "samples.json"
    before: dict[Place, float] = {}
    after: dict[Place, float] = {}
    with ExitStack() as stack:
        door = stack.enter_context(clickhouse(folder))
        frames = form == "frames"
        [log] = stack.enter_context(
            filled_logs(folder, ["log"], messages, PARTITIONS, frames=frames, real=real_kafka)
        )
        counted = count_log(
            Site(folder, log.kafka, log.pid, *door),
            log.ends,
            build=1,
            command=["benchmarks._profile_worker"],
            settings={SAMPLES: str(samples)},
            on_ready=lambda: before.update(read(samples)),
            on_end=lambda: after.update(read(samples)),
        )
        with closing(clickhouse_connect.get_client(dsn=door[0])) as client:
            answer = cells_of(client, build=1)
    Outcome(events, counted.seconds, answer, stream.truth()).check("profiled worker")
    return {place: s - before.get(place, 0.0) for place, s in after.items()}, counted


def by_stage(spent_s: dict[Place, float]) -> dict[str, float]:
    """The seconds of each stage, in the order of an event's way."""
    found = dict.fromkeys(STAGES, 0.0)
    for (stage, _), seconds in spent_s.items():
        found[stage] += seconds
    return found


def print_profile(
    form: str, events: int, spent_s: dict[Place, float], counted: Counted, places: int
) -> None:
    """The stages, then the dearest places in them."""
    millions = events / 1e6
    stages = by_stage(spent_s)
    total_s = sum(stages.values())
    print(
        f"{events:,} events as {form}, {PARTITIONS} partitions: {events / counted.seconds:,.0f} "
        f"events/s, load average {os.getloadavg()[0]:.1f}"
    )
    print(f"  {'':<40}{'CPU s':>9}{'share':>9}{'us/event':>10}")
    for stage, seconds in stages.items():
        print(f"  {stage:<40}{seconds:>9.2f}{seconds / total_s:>9.1%}{seconds / millions:>10.3f}")
    print(f"  {'worker':<40}{total_s:>9.2f}{1:>9.0%}{total_s / millions:>10.3f}")
    for name, seconds in (
        ("by the kernel's account, sampler too", counted.spent.workers_s),
        ("ClickHouse", counted.spent.clickhouse_s),
        ("broker", counted.spent.broker_s),
    ):
        print(f"  {name:<40}{seconds:>9.2f}{'':>9}{seconds / millions:>10.3f}")
    if places:
        print("\n  the dearest places")
        dearest = sorted(spent_s.items(), key=lambda one: -one[1])[:places]
        for (stage, place), seconds in dearest:
            print(f"  {seconds:>7.2f} s {seconds / total_s:>6.1%}  {stage:<38}{place}")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("form", nargs="?", choices=EVENTS, default="json", help="default json")
    options.add_argument("--events", type=int, help=f"default {EVENTS}")
    options.add_argument("--places", type=int, default=12, help="to name; default 12")
    options.add_argument("--kafka", action="store_true", help="a real Kafka, not the embedded log")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    if sys.platform != "linux":
        sys.exit("profile: needs Linux, whose kernel tells what each thread spent")
    events = given.events or EVENTS[given.form]
    with TemporaryDirectory(prefix="tally-bench-") as folder:
        spent_s, counted = profiled(given.form, events, Path(folder), real_kafka=given.kafka)
    print_profile(given.form, events, spent_s, counted, given.places)
    figures = {"form": given.form, "events": events, "stages_s": by_stage(spent_s)}
    write_json(given.json, "profile", figures)


if __name__ == "__main__":
    main()
