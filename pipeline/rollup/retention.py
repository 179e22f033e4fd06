"""What may go: cells that are rolled up for good and older than anybody wants to see them. Pure.

Ages go by log time, the least over all partitions, so a shard that was paused for a week keeps a
week's cells from being dropped; and by ClickHouse's clock where that is behind it, so a broker's
clock that jumps ahead drops nothing. A partition of a table goes as a whole when the retention of
every family is over; before that, rows of families that keep less are deleted from it. The
registers of members and sketches go with the cells of their grain and day.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from schemas.families import Families
    from schemas.rules import Retention

Grain = Literal["1m", "1h", "1d"]
Finished = Literal["1d", "life"]

KEPT_MIN_MS = 25 * 3_600_000
"""Nothing goes sooner, whatever a family says.

The sliding day is summed from minutes. And the brokers' clocks may differ: a partition that is
added begins at its broker's time, which must not lie in a day that a slow leader is about to drop.
"""


@dataclass(frozen=True, slots=True)
class FamilySet:
    """Families by name: only these, or all but these."""

    names: tuple[str, ...]
    all_but: bool = False

    def text(self) -> str:
        """The set as one text; equal sets have equal texts."""
        return ("all but " if self.all_but else "only ") + repr(sorted(self.names))


@dataclass(frozen=True, slots=True)
class Fold:
    """Add a month's days up to lifetime totals: one of `parts` shares of its counters."""

    month: date
    part: int
    parts: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop a whole partition of a grain's tables: a day, or a month of days."""

    grain: Grain
    day: date


@dataclass(frozen=True, slots=True)
class Delete:
    """Have the rows of some families deleted from a partition, once, at any later time."""

    grain: Grain
    day: date
    families: FamilySet


@dataclass(frozen=True, slots=True)
class Days:
    """What is known of partitions of tables. `final` and `deleted` are of this partition count.

    `present` has how many cells there are in every partition there is; `final` has when it was
    confirmed that a day is in hours and days for good, or a month in lifetime totals.
    """

    now_ms: int
    present: Mapping[Grain, Mapping[date, int]]
    final: Mapping[tuple[Finished, date], int] = field(default_factory=dict)
    deleted: frozenset[tuple[Grain, date, str]] = frozenset()


def end_ms(day: date) -> int:
    """When a day ends, in milliseconds since 1970."""
    return _ms(day + timedelta(days=1))


def month_end_ms(month: date) -> int:
    """When the month that begins on that day ends."""
    return _ms((month + timedelta(days=31)).replace(day=1))


def newly_final(days: Days, least_ms: int) -> list[date]:
    """Days with cells that are over everywhere, and of which that is not recorded yet."""
    there = {*days.present["1m"], *days.present["1h"]}
    return sorted(day for day in there if end_ms(day) <= least_ms and ("1d", day) not in days.final)


def folds(days: Days, least_ms: int, families: Families, rows_max: int) -> Iterator[list[Fold]]:
    """Months to add up, each in shares of about `rows_max` rows, because some family forgets days.

    A month is added up when it is over in every partition and the first family may forget it.
    """
    for month, rows in sorted(days.present["1d"].items()):
        past = _past(families, "1d", month_end_ms(month), least_ms)
        if (past.names or past.all_but) and ("life", month) not in days.final:
            parts = 1 + rows // rows_max
            yield [Fold(month, part, parts) for part in range(parts)]


def removals(
    days: Days, least_ms: int, families: Families, longest_query_ms: int
) -> Iterator[Drop | Delete]:
    """What may be dropped and deleted now.

    A query that began before a rollup was confirmed may read the rolled-up table first and the
    other one last; so nothing goes before the longest allowed query is over.
    """
    for grain, partitions in days.present.items():
        for day in sorted(partitions):
            finished: Finished = "life" if grain == "1d" else "1d"
            over_ms = month_end_ms(day) if grain == "1d" else end_ms(day)
            confirmed_ms = days.final.get((finished, day))
            if confirmed_ms is None or days.now_ms < confirmed_ms + longest_query_ms:
                continue
            past = _past(families, grain, over_ms, least_ms)
            if past.all_but and not past.names:
                yield Drop(grain, day)
            elif past.names and (grain, day, past.text()) not in days.deleted:
                yield Delete(grain, day, past)


def _past(families: Families, grain: Grain, over_ms: int, least_ms: int) -> FamilySet:
    """The families whose retention of what ended at `over_ms` is over; empty names none."""

    def is_past(retention: Retention) -> bool:
        by_grain = {"1m": retention.minute_ms, "1h": retention.hour_ms, "1d": retention.day_ms}
        kept_ms = by_grain[grain]
        return kept_ms is not None and over_ms + max(kept_ms, KEPT_MIN_MS) <= least_ms

    named = {name: is_past(family.retention) for name, family in families.families.items()}
    default = is_past(families.default.retention)
    # Families that no rule names go with the default, so it is told which ones stay.
    names = tuple(sorted(name for name, past in named.items() if past != default))
    return FamilySet(names, all_but=default)


def _ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
