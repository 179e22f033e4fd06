"""Minutes of a few counters, and candidates cut of them as the leader cuts them of ClickHouse."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from pipeline.trends.candidates import DAYS, HOUR_MINUTES, RECENT_MINUTES, Candidates
from pipeline.trends.members import Extra
from pipeline.trends.score import Scored

DAY = 1440
MINUTE_MS = 60_000


def cut(names: Sequence[str], counts: ArrayLike, minute: int) -> Candidates:
    """Candidates for a minute of `counts` (counters x minutes); counting began with minute 0."""
    table = np.asarray(counts, dtype=np.int64)
    end = minute + 1
    known = min(end, RECENT_MINUTES)
    minutes = np.zeros((len(table), RECENT_MINUTES), dtype=np.int64)
    minutes[:, RECENT_MINUTES - known :] = table[:, end - known : end]
    lasts = [end - day * DAY for day in range(1, DAYS + 1)]
    known_days = np.array([last >= HOUR_MINUTES for last in lasts])
    days = np.zeros((len(table), DAYS), dtype=np.int64)
    for day in np.flatnonzero(known_days):
        days[:, day] = table[:, lasts[day] - HOUR_MINUTES : lasts[day]].sum(axis=1)
    return Candidates(pa.array(names, pa.string()), minutes, days, known, known_days)


def recent(
    minutes: Sequence[ArrayLike], days: Sequence[ArrayLike] | None = None, known_minutes: int = 120
) -> Candidates:
    """Candidates c0, c1, ... with these last minutes, filled with zeros before, and these days."""
    table = np.zeros((len(minutes), RECENT_MINUTES), dtype=np.int64)
    for row, given in enumerate(minutes):
        column = np.asarray(given, dtype=np.int64)
        table[row, RECENT_MINUTES - len(column) :] = column
    past = np.zeros((len(minutes), DAYS), dtype=np.int64)
    known: NDArray[np.bool_] = np.zeros(DAYS, dtype=np.bool_)
    if days is not None:
        width = len(np.asarray(days[0]))
        past[:, :width] = np.asarray(days)
        known[:width] = True
    names = pa.array([f"c{row}" for row in range(len(minutes))], pa.string())
    return Candidates(names, table, past, known_minutes, known)


def scored(
    names: Sequence[str],
    scores: Sequence[float],
    hour_counts: Sequence[int] | None = None,
    members: Sequence[tuple[float, float]] | None = None,
    is_new: Sequence[bool] | None = None,
) -> Scored:
    """Scores made up by hand; by default a thousand counts each, and no members known.

    Of members: how many extra, and how many times the usual events of each.
    """
    hour = np.full(len(names), 1000) if hour_counts is None else np.array(hour_counts, np.int64)
    return Scored(
        counters=pa.array(names, pa.string()),
        observed=hour,
        expected=np.zeros(len(names)),
        score=np.array(scores, np.float64),
        horizon_minutes=np.full(len(names), HOUR_MINUTES),
        hour_count=hour,
        is_new=np.zeros(len(names), np.bool_) if is_new is None else np.array(is_new),
        extra=None if members is None else Extra(*np.array(members, np.float64).T),
    )
