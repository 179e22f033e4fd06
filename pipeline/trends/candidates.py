"""Candidates: the counters of a family that may trend in a region, with what scoring needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from pipeline.trends.members import Members

    Counts: TypeAlias = NDArray[np.int64]
    Numbers: TypeAlias = NDArray[np.float64]
    Flags: TypeAlias = NDArray[np.bool_]

RECENT_MINUTES = 120
HOUR_MINUTES = 60
DAYS = 7

COUNT_MAX = 2**40
"""Greater counts are taken as this, so that no sum can overflow."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Columns of one length, for one family, one region (or `*`) and one window W, a minute.

    All counts are on time: what was known of a minute when it closed. They never change later, so a
    replay gives the same. Nothing here may depend on anything after W.

    - `counters`: their names, each once. Who is not here has no score, and leaves if it trended. So
      wanted are all with `min_count` in the last hour, and those that trend already. A counter
      `family:`, which stands for what spilled, is none.
    - `minutes`: what was counted in each of the last RECENT_MINUTES minutes; the last column is W.
    - `days`: column d - 1 is the sum of the same hour d days ago: of the sixty minutes whose last
      one is W less d days.
    - `known_minutes`: how many of the last minutes, W included, the family has been counted in.
      Those before it are not looked at.
    - `known_days`: whether day d was counted and is still kept, for the whole of that hour.
    - `members`: who did it; None where the family keeps no distinct counts.

    Raises ValueError when shapes do not fit.
    """

    counters: pa.Array
    minutes: Counts
    days: Counts
    known_minutes: int
    known_days: Flags
    members: Members | None = None

    def __post_init__(self) -> None:
        rows = len(self.counters)
        if self.minutes.shape != (rows, RECENT_MINUTES) or self.days.shape != (rows, DAYS):
            raise ValueError(f"{rows} counters, minutes {self.minutes.shape}, {self.days.shape}")
        if self.known_days.shape != (DAYS,) or not 1 <= self.known_minutes <= RECENT_MINUTES:
            raise ValueError(f"known: {self.known_minutes} minutes, days {self.known_days}")
        if self.members is not None and self.members.uniques.shape != (rows,):
            raise ValueError(f"{rows} counters, uniques {self.members.uniques.shape}")

    def bounded(self) -> Self:
        """The same with every count within COUNT_MAX, and no less than nothing on earlier days."""
        minutes = np.clip(self.minutes, -COUNT_MAX, COUNT_MAX)
        return replace(self, minutes=minutes, days=np.clip(self.days, 0, COUNT_MAX))
