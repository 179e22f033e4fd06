"""A minute at ten times the sustained rate: nothing is refused, and how long it takes to catch up.

Run: python -m benchmarks.burst [--rate R] [--seconds S] [--calm S] [--json FILE]

`tally up` on fresh data with its default settings. A program sends R increments a second with the
producer, all with members and counters by Zipf's law; then ten times as many for a minute; then R
again until what was behind is counted. In the end every minute and every total in ClickHouse must
equal what was sent.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks._burst_load import TIMES
from benchmarks._counted import Counted
from benchmarks._kit import WrongAnswerError, write_json
from benchmarks._log_rows import LogRows
from tests.kit.processes import Process
from tests.kit.tally import tally_up

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 8
SETTLE_S = 5
"""What is sent in the beginning is not looked at: files and caches are touched there first."""

LOOK_EVERY_S = 0.2
CATCH_UP_TIMEOUT_S = 1_200
START_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run found. Rates are increments a second; freshness is p50 and p99 of heartbeats."""

    rate: float
    seconds: float
    accepted_per_s: float
    logged_per_s: float
    counted_per_s: float
    greatest_lag: int
    drain_s: float
    freshness_before_ms: tuple[float, float]
    freshness_burst_ms: tuple[float, float]
    freshness_after_ms: tuple[float, float]
    increments: int
    refused: int
    unknown: int
    load_average: float


class Watch:
    """How many rows the log has, and how many of them are counted, over time."""

    def __init__(self, rows: LogRows, counted: Counted) -> None:
        self._rows = rows
        self._counted = counted
        self._sums: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self._looks: list[tuple[int, int, int]] = []

    def look(self) -> None:
        """Note what is there by now."""
        through = self._counted.through()
        at_ms = time.time_ns() // 1_000_000
        while found := self._rows.read(LOOK_EVERY_S / 10):
            for one in found:
                sums = self._sums[one.partition]
                sums.append((sums[-1] if sums else 0) + one.rows)
        logged = sum(sums[-1] for sums in self._sums if sums)
        counted = sum(
            sums[min(through[shard], len(sums) - 1)]
            for shard, sums in enumerate(self._sums)
            if sums and through.get(shard, -1) >= 0
        )
        self._looks.append((at_ms, logged, counted))

    def look_until(self, holds: Callable[[], object], what: str) -> None:
        """Note what is there until something holds. Raises TimeoutError."""
        deadline_s = time.monotonic() + CATCH_UP_TIMEOUT_S
        while not holds():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"waited {CATCH_UP_TIMEOUT_S} s in vain: {what}")
            self.look()
            time.sleep(LOOK_EVERY_S)

    @property
    def greatest_lag(self) -> int:
        """Rows in the log that were not counted."""
        return max(logged - counted for _, logged, counted in self._looks)

    def per_s(self, since_ms: int, until_ms: int) -> tuple[float, float]:
        """Rows a second that the log got, and that were counted, between two moments."""
        times = [float(at_ms) for at_ms, _, _ in self._looks]
        rates = []
        for column in (1, 2):
            values = [float(look[column]) for look in self._looks]
            first, last = np.interp([since_ms, until_ms], times, values)
            rates.append(float((last - first) / (until_ms - since_ms) * 1000))
        return rates[0], rates[1]


class Load:
    """The program that sends, and what it said."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def said(self, event: str) -> dict[str, Any] | None:
        """What it said of an event, if that has happened. Raises RuntimeError if it ended."""
        for line in self._process.output().splitlines():
            if f'"event": "{event}"' in line:
                document: dict[str, Any] = json.loads(line)
                return document
        if not self._process.running:
            raise RuntimeError(f"the load ended: {self._process.output()}")
        return None

    def wait_for(self, event: str, watch: Watch) -> dict[str, Any]:
        """Blocks, watching, until it has said so."""
        watch.look_until(lambda: self.said(event), event)
        return self.said(event) or {}

    def end(self) -> None:
        """It sends no more."""
        self._process.send(signal.SIGTERM)


def windows(truth: Path) -> dict[tuple[str, int], int]:
    """By counter and the minute's start in seconds."""
    with np.load(truth) as found:
        minutes, counts = found["minutes_s"].tolist(), found["counts"]
    return {
        (f"likes:post-{counter}", minute_s): int(counts[number, counter])
        for number, minute_s in enumerate(minutes)
        for counter in np.flatnonzero(counts[number]).tolist()
    }


def run(folder: Path, rate: float, calm_s: float, burst_s: float) -> Figures:
    """Raises WrongAnswerError where a count is not the truth."""
    truth = folder / "truth.npz"
    with ExitStack() as stack:
        tally = stack.enter_context(tally_up(folder))
        counted = stack.enter_context(closing(Counted(tally.clickhouse)))
        rows = stack.enter_context(closing(LogRows(tally.kafka, PARTITIONS)))
        arguments = [tally.kafka, str(rate), str(calm_s), str(burst_s), str(truth)]
        command = [sys.executable, "-m", "benchmarks._burst_load", *arguments]
        process = stack.enter_context(Process(command, output_path=folder / "load.txt"))
        load, watch = Load(process), Watch(rows, counted)
        calm = load.wait_for("calm begins", watch)
        begun = load.wait_for("burst begins", watch)
        ended = load.wait_for("burst ended", watch)
        load.wait_for("burst stored", watch)
        ends = rows.ends()
        watch.look_until(lambda: counted.is_past(ends), "the burst is counted")
        drained_ms = time.time_ns() // 1_000_000
        again_s = time.monotonic() + calm_s
        watch.look_until(lambda: time.monotonic() >= again_s, "steady again")
        finished_ms = time.time_ns() // 1_000_000
        load.end()
        sent = load.wait_for("ended", watch)
        counted.wait(rows.ends(), CATCH_UP_TIMEOUT_S)
        counted.check(windows(truth))
        logged_per_s, counted_per_s = watch.per_s(begun["at_ms"], ended["at_ms"])
        return Figures(
            rate=rate,
            seconds=ended["seconds"],
            accepted_per_s=ended["accepted"] / ended["seconds"],
            logged_per_s=logged_per_s,
            counted_per_s=counted_per_s,
            greatest_lag=watch.greatest_lag,
            drain_s=(drained_ms - ended["at_ms"]) / 1000,
            freshness_before_ms=counted.freshness_ms(
                calm["at_ms"] + 1000 * SETTLE_S, begun["at_ms"]
            ),
            freshness_burst_ms=counted.freshness_ms(begun["at_ms"], drained_ms),
            freshness_after_ms=counted.freshness_ms(drained_ms, finished_ms),
            increments=sent["stored"],
            refused=sent["refused"],
            unknown=sent["unknown"],
            load_average=os.getloadavg()[0],
        )


def print_figures(found: Figures) -> None:
    """One line for each."""
    before, burst, after = (
        f"{p50:,.0f} / {p99:,.0f} ms"
        for p50, p99 in (
            found.freshness_before_ms,
            found.freshness_burst_ms,
            found.freshness_after_ms,
        )
    )
    reached = found.accepted_per_s / (TIMES * found.rate)
    print(
        f"\n{found.rate:,.0f} increments/s, then {TIMES} times as many for {found.seconds:.0f} s\n"
        f"  accepted by the producer     {found.accepted_per_s:>12,.0f}/s, {reached:.0%} of it\n"
        f"  stored in the log            {found.logged_per_s:>12,.0f}/s\n"
        f"  counted meanwhile            {found.counted_per_s:>12,.0f}/s\n"
        f"  refused, unknown, dead       {found.refused}, {found.unknown}, 0\n"
        f"  greatest lag                 {found.greatest_lag:>12,} rows\n"
        f"  drained after                {found.drain_s:>12.1f} s\n"
        f"  freshness p50 / p99          {before} before, {burst} until drained, {after} after\n"
        f"  equal in ClickHouse          {found.increments:>12,} increments\n"
        f"  load average                 {found.load_average:>12.1f}"
    )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rate", type=float, default=20_000, help="sustained; default 20000")
    options.add_argument("--seconds", type=float, default=60, help="of the burst; default 60")
    options.add_argument("--calm", type=float, default=20, help="before and after; default 20")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    try:
        with TemporaryDirectory(prefix="tally-bench-") as folder:
            found = run(Path(folder), given.rate, given.calm, given.seconds)
    except (WrongAnswerError, TimeoutError, RuntimeError) as error:
        sys.exit(f"burst: {error}")
    print_figures(found)
    write_json(given.json, "burst", asdict(found))
    if found.refused or found.unknown:
        sys.exit("burst: increments were refused or are unknown")


if __name__ == "__main__":
    main()
