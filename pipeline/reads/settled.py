"""What counters had on days that are rolled up for good: it does not change, so it is remembered.

Thread-safe.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from pipeline.clock import Clock
    from pipeline.reads.taking import Values

AGE_S = 30.0
"""For how long it is remembered: tables can be spoiled and mended, or restored."""

ROWS_MAX = 200_000
"""How many rows are remembered; counters asked for longest ago give way."""

NOTHING: Values = (0, 0, 0)


class Border(NamedTuple):
    """Days before `day` of this build are rolled up for good."""

    build: int
    day: date


class Owner(NamedTuple):
    """Whose cells of a counter are added up, and in which month of log time."""

    region: str
    replica: str
    shard: int
    month: date


class SettledMonth(NamedTuple):
    """A month's lifetime total, and what its days before the border add up to."""

    life: Values = NOTHING
    days: Values = NOTHING


Months = dict[Owner, SettledMonth]


class Settled:
    """Months by counter, of the border asked for last. Nothing in it is older than AGE_S."""

    def __init__(self, clock: Clock, rows_max: int = ROWS_MAX) -> None:
        self._clock = clock
        self._rows_max = rows_max
        self._lock = threading.Lock()
        self._border: Border | None = None
        self._kept: OrderedDict[str, tuple[float, Months]] = OrderedDict()
        self._rows = 0

    def known(self, border: Border, counters: Iterable[str]) -> dict[str, Months]:
        """What is remembered of these counters."""
        oldest_s = self._clock.monotonic_s() - AGE_S
        found: dict[str, Months] = {}
        with self._lock:
            if border != self._border:
                return found
            for counter in counters:
                kept = self._kept.get(counter)
                if kept is not None and kept[0] >= oldest_s:
                    self._kept.move_to_end(counter)
                    found[counter] = kept[1]
        return found

    def keep(self, border: Border, asked_s: float, read: Mapping[str, Months]) -> None:
        """Remember what was read, by a question that began at `asked_s`."""
        with self._lock:
            if border != self._border:
                self._border = border
                self._kept.clear()
                self._rows = 0
            for counter, months in read.items():
                self._drop(counter)
                self._kept[counter] = (asked_s, months)
                self._rows += _weight(months)
            while self._rows > self._rows_max:
                self._drop(next(iter(self._kept)))

    def _drop(self, counter: str) -> None:
        kept = self._kept.pop(counter, None)
        if kept is not None:
            self._rows -= _weight(kept[1])


def months_of(
    counters: Sequence[str], rows: Iterable[tuple[bool, str, Owner, Values]]
) -> dict[str, Months]:
    """Months by counter, from rows that say whether they are lifetime totals. Pure."""
    found: dict[str, Months] = {counter: {} for counter in counters}
    for is_life, counter, owner, values in rows:
        months = found[counter]
        known = months.get(owner, SettledMonth())
        months[owner] = known._replace(life=values) if is_life else known._replace(days=values)
    return found


def _weight(months: Months) -> int:
    """A counter without any is remembered, too."""
    return max(len(months), 1)
