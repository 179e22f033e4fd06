"""What to expect of an hour and of its last minute, if nothing happens.

Sums are whole numbers, so that they are the same in any order; means are single divisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.trends.candidates import COUNT_MAX, HOUR_MINUTES, RECENT_MINUTES

if TYPE_CHECKING:
    from pipeline.trends.candidates import Candidates, Counts, Flags, Numbers

BASE_MINUTES = 30
"""Without an earlier day, so many minutes before a horizon must be known to expect anything."""

HALF_LIFE_MINUTES = 30

LEVEL_MAX = 3.0
LEVEL_COUNTERS = 20
LEVEL_COUNT = 20.0
"""The level of a region is told by the counters that usually have so many an hour, if there are
so many of them."""

_WEIGHT_ONE = 2**10
_AGES = np.arange(RECENT_MINUTES)[::-1]
_DECAY = np.rint(_WEIGHT_ONE * 0.5 ** (_AGES / HALF_LIFE_MINUTES)).astype(np.int64)
assert COUNT_MAX * int(_DECAY.sum()) < 2**63


@dataclass(frozen=True, slots=True)
class Expected:
    """Of the hour and of the minute; None where there is nothing yet to expect it by.

    `is_new`: nothing is known of the counter before the hour.
    """

    hour: Numbers | None
    minute: Numbers | None
    is_new: Flags


def expected(candidates: Candidates, hour_count: Counts) -> Expected:
    """What the days before lead to expect, or the minutes before where no day is known.

    The candidates are bounded; `hour_count` is what was counted in the last hour.
    """
    older = _decayed_mean(candidates, HOUR_MINUTES)
    if candidates.known_days.any():
        usual = _usual_hour(candidates)
        is_new = (candidates.days[:, candidates.known_days] == 0).all(axis=1)
    elif older is not None:
        usual = HOUR_MINUTES * older
        is_new = older <= 0
    else:
        return Expected(None, _decayed_mean(candidates, 1), np.zeros(len(hour_count), np.bool_))
    hour = usual * level(hour_count, usual)
    recent = _decayed_mean(candidates, 1)
    share = hour / HOUR_MINUTES
    return Expected(hour, share if recent is None else np.maximum(share, recent), is_new)


def level(hour_count: Counts, usual: Numbers) -> float:
    """By how much this hour is busier than usual for all: the median ratio, 1 at least.

    A busy day, a feast or a lost day in the history lifts all counters, and is a trend of none.
    """
    told = usual >= LEVEL_COUNT
    if np.count_nonzero(told) < LEVEL_COUNTERS:
        return 1.0
    return float(np.clip(np.median(hour_count[told] / usual[told]), 1.0, LEVEL_MAX))


def _usual_hour(candidates: Candidates) -> Numbers:
    """The same hour's median over the known days, or yesterday's where that is greater.

    A single day's burst does not spoil the median, and a level that has lasted a day is no trend.
    """
    known = candidates.known_days
    days = candidates.days[:, known].astype(np.float64)
    usual: Numbers = np.median(days, axis=1)
    return np.maximum(usual, days[:, 0]) if known[0] else usual


def _decayed_mean(candidates: Candidates, horizon_minutes: int) -> Numbers | None:
    """Per minute, of what is known before the horizon, the later the more; None if too little."""
    first = RECENT_MINUTES - candidates.known_minutes
    end = RECENT_MINUTES - horizon_minutes
    if end - first < BASE_MINUTES:
        return None
    weights = _DECAY[first:end]
    sums = np.einsum("ij,j->i", candidates.minutes[:, first:end], weights)
    mean: Numbers = np.maximum(sums, 0) / weights.sum()
    return mean
