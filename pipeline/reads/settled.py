"""What counters had on days that are rolled up for good: it does not change, so it is remembered.

Thread-safe.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
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

AGING_S = AGE_S / 2
"""From when on it is read again together with what somebody else waits for."""

WANTED_S = 2 * AGE_S
"""For how long after a counter was asked for that is done for it."""

_LOOKED_AT_MAX = 2_000

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


@dataclass(slots=True)
class _Kept:
    """A counter's months, when the question for them began, and when they were last wanted."""

    months: Months
    asked_s: float
    wanted_s: float


class Settled:
    """Months by counter, of the border asked for last. Nothing it tells is older than AGE_S."""

    def __init__(self, clock: Clock, rows_max: int = ROWS_MAX) -> None:
        self._clock = clock
        self._rows_max = rows_max
        self._lock = threading.Lock()
        self._border: Border | None = None
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._rows = 0

    def known(self, border: Border, counters: Iterable[str]) -> dict[str, Months]:
        """What is remembered of these counters."""
        now_s = self._clock.monotonic_s()
        found: dict[str, Months] = {}
        with self._lock:
            if border != self._border:
                return found
            for counter in counters:
                kept = self._kept.get(counter)
                if kept is None:
                    continue
                kept.wanted_s = now_s
                if kept.asked_s >= now_s - AGE_S:
                    self._kept.move_to_end(counter)
                    found[counter] = kept.months
        return found

    def aging(self, border: Border, counters_max: int) -> list[str]:
        """Counters asked for lately whose months will be too old soon, or are.

        One question for many costs hardly more than for one, so whoever asks may ask for these.
        """
        now_s = self._clock.monotonic_s()
        with self._lock:
            if border != self._border:
                return []
            lately = islice(reversed(self._kept.items()), _LOOKED_AT_MAX)
            found = (
                counter
                for counter, kept in lately
                if kept.asked_s < now_s - AGING_S and kept.wanted_s >= now_s - WANTED_S
            )
            return list(islice(found, counters_max))

    def keep(self, border: Border, asked_s: float, read: Mapping[str, Months]) -> None:
        """Remember what was read, by a question that began at `asked_s`."""
        with self._lock:
            if border != self._border:
                self._border = border
                self._kept.clear()
                self._rows = 0
            for counter, months in read.items():
                before = self._drop(counter)
                wanted_s = asked_s if before is None else before.wanted_s
                self._kept[counter] = _Kept(months, asked_s, wanted_s)
                self._rows += _weight(months)
            while self._rows > self._rows_max:
                self._drop(next(iter(self._kept)))

    def _drop(self, counter: str) -> _Kept | None:
        kept = self._kept.pop(counter, None)
        if kept is not None:
            self._rows -= _weight(kept.months)
        return kept


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
