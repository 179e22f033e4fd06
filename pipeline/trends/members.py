"""Who did it: the members beyond the usual ones, so that a few who do much are told from many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.trends.candidates import HOUR_MINUTES, RECENT_MINUTES

if TYPE_CHECKING:
    from pipeline.trends.candidates import Counts, Numbers

UNIQUES_ERROR = 0.03
"""Which part of the members may be an error of the estimate: about two standard errors."""


@dataclass(frozen=True, slots=True)
class Members:
    """Distinct members of the candidates, a column entry for each.

    - `uniques`: estimated, of the last minutes; NaN or 0 where none is known.
    - `per_member`: how many events a member usually makes: the count over the uniques of the same
      hour a day ago, or, before there is a day, of what is recent before `uniques` begin. NaN or 0
      where it is not known.
    - `span_minutes`: how many minutes `uniques` are of, W included: 61 to 120.
    """

    uniques: Numbers
    per_member: Numbers
    span_minutes: int

    def __post_init__(self) -> None:
        if not HOUR_MINUTES < self.span_minutes <= RECENT_MINUTES:
            raise ValueError(f"members of {self.span_minutes} minutes")


@dataclass(frozen=True, slots=True)
class Extra:
    """`members` beyond the usual ones, and how many `times` the usual events each of them made.

    NaN where it is not known.
    """

    members: Numbers
    times: Numbers


def extra_members(members: Members, minutes: Counts, excess: Numbers) -> Extra:
    """Those beyond the members that the expected events would have had.

    Whose `per_member` is not known is taken as the median of the others; if none is, all members
    count as extra. In doubt about the estimate, there are more. `excess` is what was counted beyond
    the expected events.
    """
    count = minutes[:, RECENT_MINUTES - members.span_minutes :].sum(axis=1)
    beyond = np.maximum(excess, 0.0)
    per_member = _known_per_member(members.per_member)
    usual = np.maximum(count - beyond, 0.0) / per_member
    extra = np.maximum(members.uniques - usual, 0.0) + UNIQUES_ERROR * members.uniques
    extra = np.where(members.uniques > 0, extra, np.nan)
    return Extra(extra, np.where(np.isinf(per_member), np.nan, beyond / extra / per_member))


def _known_per_member(per_member: Numbers) -> Numbers:
    is_known = per_member > 0
    others = np.median(per_member[is_known]) if is_known.any() else np.inf
    return np.where(is_known, per_member, others)
