"""Trending, watched over a synthetic week: every minute is scored as the leader would."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks._week import DAY, REGIONS
from pipeline.trends.candidates import DAYS, HOUR_MINUTES, RECENT_MINUTES, Candidates
from pipeline.trends.members import Members
from pipeline.trends.ranking import in_regions, rank
from pipeline.trends.reading import MEMBERS_OF_MINUTES
from pipeline.trends.score import score
from pipeline.trends.transitions import transitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._week import Counts, Week
    from pipeline.rules import TrendRules
    from pipeline.trends.score import Scored

    Spans: TypeAlias = dict[tuple[str, str], list[tuple[int, int | None]]]

MINUTE_MS = 60_000


@dataclass(slots=True)
class Watched:
    """What trended by some rules: (entered, left) in minutes, by region and counter."""

    rules: TrendRules
    spans: Spans = field(default_factory=dict)
    before: dict[str, dict[str, int]] = field(default_factory=dict)


def watch(week: Week, rules: Sequence[TrendRules], first: int, end: int) -> list[Watched]:
    """Score minutes first to end - 1 once and rank them by each of the rules."""
    names = pa.array(week.names)
    watched = [Watched(one) for one in rules]
    for minute in range(first, end):
        for region in (*REGIONS, "*"):
            kept = {name for one in watched for name in one.before.get(region, ())}
            scored = score(candidates(week, names, region, minute, kept))
            for one in watched:
                _step(one, scored, region, minute)
    return watched


def candidates(week: Week, names: pa.Array, region: str, minute: int, kept: set[str]) -> Candidates:
    """What the leader would read of ClickHouse; `kept` are wanted however few their counts."""
    end = minute + 1
    is_wanted = week.total(region, max(end - HOUR_MINUTES, 0), end) >= 10
    if kept:
        is_wanted |= pc.is_in(names, value_set=pa.array(sorted(kept), names.type)).to_numpy(False)
    rows = np.flatnonzero(is_wanted)
    known_days = np.array([end - day * DAY >= HOUR_MINUTES for day in range(1, DAYS + 1)])
    days = np.zeros((len(rows), DAYS), dtype=np.int64)
    for day in range(1, int(known_days.sum()) + 1):
        last = end - day * DAY
        days[:, day - 1] = week.total(region, last - HOUR_MINUTES, last)[rows]
    known_minutes = min(end, RECENT_MINUTES)
    minutes = np.zeros((len(rows), RECENT_MINUTES), dtype=np.int64)
    minutes[:, RECENT_MINUTES - known_minutes :] = week.counts(
        region, rows, end - known_minutes, end
    )
    return Candidates(
        names.take(rows),
        minutes,
        days,
        known_minutes,
        known_days,
        _members(week, region, rows, minute),
    )


def _members(week: Week, region: str, rows: Counts, minute: int) -> Members | None:
    """Of the last minutes, beside the same hour a day ago or what is recent before them."""
    since = minute + 1 - MEMBERS_OF_MINUTES
    past, end = minute + 1 - DAY - HOUR_MINUTES, minute + 1 - DAY
    if past < 0:
        past, end = minute + 1 - RECENT_MINUTES, since
    if past < 0:
        return None
    count = week.total(region, past, end)[rows]
    past_uniques = week.uniques(region, past, end)[rows]
    per_member = np.where(past_uniques > 0, count / np.maximum(past_uniques, 1.0), np.nan)
    uniques = week.uniques(region, since, minute + 1)[rows]
    return Members(uniques, per_member, MEMBERS_OF_MINUTES)


def _step(watched: Watched, scored: Scored, region: str, minute: int) -> None:
    before = watched.before.get(region, {})
    regions = None
    if region == "*":
        regions = in_regions(scored.counters, {one: watched.before[one] for one in REGIONS})
    ranking = rank(scored, watched.rules, before, window_ms=minute * MINUTE_MS, regions=regions)
    for one in transitions("tag", region, before, ranking):
        spans = watched.spans.setdefault((region, one.counter), [])
        if one.transition == "enter":
            spans.append((minute, None))
        else:
            spans[-1] = (spans[-1][0], minute)
    watched.before[region] = ranking.trending
