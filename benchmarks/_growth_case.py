"""One size of one thing that may grow: a log is filled and counted on servers of its own."""

from __future__ import annotations

import math
import os
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import clickhouse_connect

from benchmarks._builds import cells_of
from benchmarks._kit import Outcome
from benchmarks._replay_log import clickhouse, filled_logs
from benchmarks._replay_stream import WINDOW_MS, Stream
from benchmarks._tally_run import Site, count_log

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks._tally_run import Counted

Form = Literal["JSON", "frames"]

EVENTS_PER_MINUTE = 1_000_000
"""Of log time: a log of more events is a longer one, not a denser one."""

BATCH = {"JSON": 10_000, "frames": 100_000}
FEWEST_PER_S = 10_000
"""A worker that counts fewer is given up."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is counted: events in one form, counters of each of three families, and by whom."""

    axis: str
    form: Form
    events: int = 1_000_000
    counters: int = 50_000
    are_alike: bool = False
    workers: int = 1
    partitions: int = 8

    @property
    def size(self) -> int:
        """How large it is in what its axis is about."""
        found: int = getattr(self, self.axis.partition(",")[0])
        return found


@dataclass(frozen=True, slots=True)
class Row:
    """What one case cost; processors' seconds are per million events."""

    axis: str
    form: str
    size: int
    events: int
    cells: int
    seconds: float
    events_per_s: float
    worker_s: float
    broker_s: float
    clickhouse_s: float
    peak_bytes: int
    load_average: float

    @property
    def all_s(self) -> float:
        return self.worker_s + self.broker_s + self.clickhouse_s


def measure(case: Case, folder: Path, *, real_kafka: bool = False) -> Row:
    """Fill, count, compare each cell with the truth. Raises WrongAnswerError when one differs."""
    folder.mkdir()
    minutes = math.ceil(case.events / EVENTS_PER_MINUTE)
    stream = Stream(
        case.events,
        BATCH[case.form],
        minutes,
        case.partitions,
        int(time.time() * 1000) - (minutes + 2) * WINDOW_MS,
        members=True,
        counters=case.counters,
        are_alike=case.are_alike,
    )
    is_json = case.form == "JSON"
    messages = stream.json() if is_json else stream.frames()
    with ExitStack() as stack:
        door = stack.enter_context(clickhouse(folder))
        [log] = stack.enter_context(
            filled_logs(
                folder, ["log"], messages, case.partitions, frames=not is_json, real=real_kafka
            )
        )
        counted = count_log(
            Site(folder, log.kafka, log.pid, *door),
            log.ends,
            build=1,
            workers=case.workers,
            timeout_s=60 + case.events / FEWEST_PER_S,
        )
        load_average = os.getloadavg()[0]
        with closing(clickhouse_connect.get_client(dsn=door[0])) as client:
            answer = cells_of(client, build=1)
    truth = stream.truth()
    Outcome(case.events, counted.seconds, answer, truth).check(str(case))
    share = counted.records / sum(log.ends)
    return _row(case, counted, share * case.events, len(truth), load_average)


def _row(case: Case, counted: Counted, events: float, cells: int, load_average: float) -> Row:
    millions = events / 1e6
    return Row(
        case.axis,
        case.form,
        case.size,
        round(events),
        cells,
        counted.seconds,
        events / counted.seconds,
        counted.spent.workers_s / millions,
        counted.spent.broker_s / millions,
        counted.spent.clickhouse_s / millions,
        counted.peak_bytes,
        load_average,
    )
