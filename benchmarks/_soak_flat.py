"""Whether what was watched over hours stayed flat, by a criterion that is stated. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Series = list[tuple[float, float]]
"""What was measured, by the second it was measured at."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a series may grow from the middle third of a run to its last third."""

    factor: float
    allowance: float

    def reaches(self, middle: float) -> float:
        """Up to which value the last third may come."""
        return middle * self.factor + self.allowance


LIMITS = {
    "memory": Limit(1.10, 16.0),
    "handles": Limit(1.00, 8.0),
    "freshness": Limit(1.50, 100.0),
    "reads": Limit(1.50, 50.0),
}
"""In MiB, open files, and milliseconds. The first third is not looked at: caches are filled there,
and tables get the sizes that they keep."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The medians of the last two thirds, and whether the last is within its limit."""

    name: str
    middle: float
    last: float
    limit: float

    @property
    def is_flat(self) -> bool:
        return self.last <= self.limit


def verdict(name: str, kind: str, series: Series, seconds: float) -> Verdict:
    """Raises ValueError where a third has nothing that was measured."""
    middle = _median(series, seconds / 3, seconds * 2 / 3)
    last = _median(series, seconds * 2 / 3, seconds)
    return Verdict(name, middle, last, LIMITS[kind].reaches(middle))


def _median(series: Series, since_s: float, until_s: float) -> float:
    values = [value for at_s, value in series if since_s <= at_s < until_s]
    if not values:
        raise ValueError(f"nothing was measured from {since_s:.0f} s to {until_s:.0f} s")
    return statistics.median(values)


def p99_by_span(taken: Sequence[tuple[float, float]], span_s: float) -> Series:
    """Of single times (when, how long), the p99 of each span, at the span's middle."""
    spans: dict[int, list[float]] = {}
    for at_s, value in taken:
        spans.setdefault(int(at_s // span_s), []).append(value)
    return [
        ((number + 0.5) * span_s, sorted(values)[min(len(values) - 1, int(len(values) * 0.99))])
        for number, values in sorted(spans.items())
    ]
