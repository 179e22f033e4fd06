"""How exceptional each candidate is: observed beside expected, over a minute and over an hour.

The score is in standard deviations, about: 2 (sqrt(observed) - sqrt(expected)) is that for Poisson
counts, and the divisor allows for counts that swing by more. There is no logarithm and no power in
it, only division and square roots, which IEEE 754 rounds in one way. So a score is the same to the
last digit on every machine, in any order of candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.trends.candidates import HOUR_MINUTES, RECENT_MINUTES
from pipeline.trends.expected import expected
from pipeline.trends.members import extra_members

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.trends.candidates import Candidates, Counts, Flags, Numbers
    from pipeline.trends.members import Extra

SWING = 0.2
"""By which part of itself a count swings when nothing happens, however great it is."""

COUNT_FLOOR = 1.0
"""Below it, observed and expected are taken as this: who expects nothing is not amazed by one."""

FADE_MINUTES = 30
"""After so many minutes with nothing the score is not above 0."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Candidates with their scores, column by column.

    `observed` and `expected` are those of the horizon whose score is the greater, a minute or an
    hour; `hour_count` is the last hour's in any case. `is_new`: there is nothing to compare with.
    `extra` are the members beyond the usual ones; None if the family keeps no distinct counts.
    """

    counters: pa.Array
    observed: Counts
    expected: Numbers
    score: Numbers
    horizon_minutes: Counts
    hour_count: Counts
    is_new: Flags
    extra: Extra | None


def score(candidates: Candidates) -> Scored:
    """Score all candidates. Where nothing can be expected yet, nothing is exceptional."""
    candidates = candidates.bounded()
    minute, hour = _count(candidates, 1), _count(candidates, HOUR_MINUTES)
    usual = expected(candidates, hour)
    of_minute = minute.astype(np.float64) if usual.minute is None else usual.minute
    of_hour = hour.astype(np.float64) if usual.hour is None else usual.hour
    by_minute, by_hour = root_score(minute, of_minute), root_score(hour, of_hour)
    is_short = by_minute > by_hour
    greater = np.where(is_short, by_minute, by_hour)
    observed = np.where(is_short, minute, hour)
    usually = np.where(is_short, of_minute, of_hour)
    is_alive = _count(candidates, FADE_MINUTES) > 0
    return Scored(
        counters=candidates.counters,
        observed=observed,
        expected=usually,
        score=np.where(is_alive, greater, np.minimum(greater, 0.0)),
        horizon_minutes=np.where(is_short, 1, HOUR_MINUTES),
        hour_count=hour,
        is_new=usual.is_new,
        extra=_extra(candidates, observed - usually),
    )


def root_score(observed: Counts | Numbers, expected: Numbers) -> Numbers:
    """0 where both are alike; grows with what was observed, falls with what was expected."""
    seen = np.maximum(observed, COUNT_FLOOR)
    usual = np.maximum(expected, COUNT_FLOOR)
    spread: Numbers = np.sqrt(1.0 + SWING * SWING * usual)
    return 2.0 * (np.sqrt(seen) - np.sqrt(usual)) / spread


def _extra(candidates: Candidates, excess: Numbers) -> Extra | None:
    if candidates.members is None:
        return None
    return extra_members(candidates.members, candidates.minutes, excess)


def _count(candidates: Candidates, minutes: int) -> Counts:
    """Of the last minutes, as far as known. More taken away than added is as good as nothing."""
    last = candidates.minutes[:, RECENT_MINUTES - min(minutes, candidates.known_minutes) :]
    count: Counts = np.maximum(last.sum(axis=1), 0)
    return count
