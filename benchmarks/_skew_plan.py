"""The leader's planner on simulated time: producers report each second, the plan follows. Pure.

Reports, decisions and the plan's records are the program's own; only the log between them is not
there. Producers do as they would: each names the heaviest counters it sent, and no others, so what
is beyond the reach of a report is beyond the planner's here as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pipeline.planning.load import COUNTERS_MAX, LoadReport, decode, encode, heaviest
from pipeline.planning.plan import SHARDS_PREFIX, PlanRecords
from pipeline.planning.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks._skew_load import Counters
    from pipeline.planning.planner import Thresholds

PRODUCERS = 4
SECONDS = 30
VIRAL_AT_S = 5
"""Before it there are only the counters by Zipf's law."""

SECOND_MS = 1_000
_FIRST_MS = 1_790_000_400_000
_NAMED_MAX = 4 * COUNTERS_MAX
"""Of how many counters rows are drawn: chance brings none of the others into a report."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The plan in the end, and how many seconds after the viral counter came it last changed."""

    shards: Mapping[str, int]
    changed_s: int


def settle(
    usual: Counters,
    viral: Counters,
    rate: float,
    partitions: int,
    thresholds: Thresholds,
    *,
    seed: int = 1,
) -> Settled:
    """The plan for so many rows a second: first of `usual` counters, then of `viral` ones."""
    rng = np.random.default_rng(seed)
    planner, records = Planner(thresholds), PlanRecords()
    changed_s = 0
    for second in range(SECONDS):
        counters = usual if second < VIRAL_AT_S else viral
        now_ms = _FIRST_MS + (second + 1) * SECOND_MS  # reports are of the second that is over
        for producer in range(PRODUCERS):
            report = _report(rng, f"producer-{producer}", counters, rate / PRODUCERS, now_ms)
            planner.add(decode(encode(report)), now_ms)
        for counter, split in planner.decide(now_ms, partitions, records).items():
            value = None if split is None else msgspec.json.encode(split)
            records.take(SHARDS_PREFIX + counter.encode(), value)
            changed_s = max(0, second + 1 - VIRAL_AT_S)
    plan = records.plan(partitions, partitions, _FIRST_MS + SECONDS * SECOND_MS)
    return Settled(plan.split, changed_s)


def _report(
    rng: np.random.Generator, producer: str, counters: Counters, rate: float, now_ms: int
) -> LoadReport:
    """What one producer sent within a second, by chance about its part of each counter."""
    rows = rng.poisson(counters.shares[:_NAMED_MAX] * rate)
    named = dict(zip(counters.names, rows.tolist(), strict=False))
    return LoadReport(producer, now_ms, SECOND_MS, heaviest(named), round(rate))
