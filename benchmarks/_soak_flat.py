"""Whether what was watched over hours stayed flat, by a criterion that is stated. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Series = list[tuple[float, float]]
"""What was measured, by the second it was measured at."""

HOUR_S = 3600.0
SPANS = 60
"""Of a run: the slope is one of medians, each of such a span. Of an hour they are minutes."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a series may grow from the middle third of a run to its last third, and to what."""

    factor: float
    allowance: float
    most: float = math.inf

    def reaches(self, middle: float) -> float:
        """Up to which value the last third may come."""
        return min(middle * self.factor + self.allowance, self.most)


LIMITS = {
    "memory": Limit(1.05, 16.0),
    "handles": Limit(1.00, 8.0),
    "freshness": Limit(1.50, 100.0, most=10_000.0),
    "reads": Limit(1.50, 50.0),
    "commands": Limit(1.50, 50.0),
}
"""In MiB, open files, and milliseconds. The first third is not looked at: caches are filled there,
and tables get the sizes that they keep. A worker that is ten seconds behind is not at half load."""

PER_HOUR = {
    "memory": {"log": 8.0, "ClickHouse": 48.0, "worker": 24.0, "web": 8.0},
    "handles": {"log": 4.0, "ClickHouse": 16.0, "worker": 4.0, "web": 4.0},
}
"""The slope, in MiB or open files an hour, that a process may have beyond what is known to grow."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth per hour over the last two thirds: all of it, what of it is known, and its limit."""

    all: float
    known: float
    limit: float

    @property
    def is_flat(self) -> bool:
        return self.all - self.known <= self.limit


@dataclass(frozen=True, slots=True)
class Verdict:
    """The medians of the last two thirds, the slope over them, and whether both are in limits.

    `slope` is None of what has no limit per hour.
    """

    name: str
    middle: float
    last: float
    limit: float
    slope: Slope | None = None

    @property
    def is_flat(self) -> bool:
        return self.last <= self.limit and (self.slope is None or self.slope.is_flat)


def verdict(
    name: str,
    kind: str,
    series: Series,
    seconds: float,
    *,
    of: str = "",
    known: Series | None = None,
) -> Verdict:
    """Of a process (`of`) with what is known to grow in it, measured in the same unit.

    Raises ValueError where a third has nothing that was measured.
    """
    middle = _median(series, seconds / 3, seconds * 2 / 3)
    last = _median(series, seconds * 2 / 3, seconds)
    limits = PER_HOUR.get(kind)
    slope = None if limits is None else _slope(series, known or [], seconds, limits[of])
    return Verdict(name, middle, last, LIMITS[kind].reaches(middle), slope)


def _median(series: Series, since_s: float, until_s: float) -> float:
    values = [value for at_s, value in series if since_s <= at_s < until_s]
    if not values:
        raise ValueError(f"nothing was measured from {since_s:.0f} s to {until_s:.0f} s")
    return statistics.median(values)


def _slope(series: Series, known: Series, seconds: float, limit_per_hour: float) -> Slope:
    """A run of less than an hour has the limit of an hour's growth: it swings as much.

    What shrank is not asked back: allocators keep it.
    """
    limit = limit_per_hour * max(1.0, HOUR_S / seconds)
    later = [[one for one in each if one[0] >= seconds / 3] for each in (series, known)]
    grown, of_known = (slope_per_hour(each, seconds / SPANS) for each in later)
    return Slope(grown, max(0.0, of_known), limit)


def slope_per_hour(series: Series, span_s: float) -> float:
    """Theil and Sen's: the median of the slopes between any two spans' medians; 0 of one span.

    So neither peaks nor a tooth of a saw that is shorter than the series decide it.
    """
    spans: dict[int, list[float]] = {}
    for at_s, value in series:
        spans.setdefault(int(at_s // span_s), []).append(value)
    medians = [(number * span_s, statistics.median(values)) for number, values in spans.items()]
    slopes = [
        (later - sooner) / (later_s - sooner_s) * HOUR_S
        for (sooner_s, sooner), (later_s, later) in combinations(medians, 2)
    ]
    return statistics.median(slopes) if slopes else 0.0


FAILED_SHARE_MAX = 0.001
"""Of all that was asked of a kind. One in a thousand is a connection that broke, not a state."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How many questions of one kind there were, and how many of them were not answered."""

    name: str
    asked: int
    failed: int

    @property
    def may_fail(self) -> int:
        return int(self.asked * FAILED_SHARE_MAX)

    @property
    def is_well(self) -> bool:
        """Nothing asked is not well: then nothing was found out."""
        return self.asked > 0 and self.failed <= self.may_fail


def p99_by_span(taken: Sequence[tuple[float, float]], span_s: float) -> Series:
    """Of single times (when, how long), the p99 of each span, at the span's middle."""
    spans: dict[int, list[float]] = {}
    for at_s, value in taken:
        spans.setdefault(int(at_s // span_s), []).append(value)
    return [
        ((number + 0.5) * span_s, sorted(values)[min(len(values) - 1, int(len(values) * 0.99))])
        for number, values in sorted(spans.items())
    ]
