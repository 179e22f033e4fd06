"""One pass of the rollup as a sequence of operations, each to be confirmed before the next. Pure.

The pass is a generator: it yields an operation and is sent the answer. ClickHouse answers in
pipeline/rollup/rollup.py; the simulation answers with dictionaries, lost answers and late effects.

What makes it exact, whoever runs it and however often:
- Rolled-up sums are absolute and only grow, and the tables keep the greatest. A repeated, late or
  partial write changes nothing.
- A shard's flushed position is read before the cells are. Its slots that were over there cannot
  change any more, so once everything is written they are rolled up for good, and that is recorded.
  The next pass begins at the slot that was open.
- A day is final when that record is past it for every partition that Kafka reports. One without
  a record is not past anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pipeline.errors import OperatorError
from pipeline.placing import slot_of
from pipeline.rollup import retention

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from datetime import date

    from pipeline.rollup.retention import Delete, Drop, Finished
    from schemas.families import Families

BATCH_CELLS = 1_000_000
"""Open cells that one statement may look at, so that its memory and its time are bounded."""

Kind = Literal["cells", "frequency", "heavy"]
KINDS: tuple[Kind, ...] = ("cells", "frequency", "heavy")
"""What is rolled up: cells, sketches of counts by bucket, names that may lead among these."""


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """Answered by a Progress."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Log times in milliseconds by shard: up to which it is flushed, and up to which rolled up."""

    flushed: Mapping[int, int]
    rolled: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Open:
    """Which slots may have changed since they were last rolled up, in milliseconds.

    `since` has each shard's first one; a shard that is not named is open from its first slot on.
    `least_ms` is at or before all of them.
    """

    since: Mapping[int, int]
    least_ms: int


@dataclass(frozen=True, slots=True)
class CountOpen:
    """Answered by (slot day, family, cells) for the cells, or what else, in open slots."""

    open: Open
    kind: Kind = "cells"


@dataclass(frozen=True, slots=True)
class Roll:
    """Write anew the sums of a slot day that have an open cell in them: to hours from minutes, or
    to days from hours.

    Of the families from `first` to `last` by name; of their counters one of `parts` shares. Names
    that may lead are no sums, but are written anew alike.
    """

    grain: Literal["1h", "1d"]
    day: date
    first: str
    last: str
    part: int
    parts: int
    open: Open
    kind: Kind = "cells"


@dataclass(frozen=True, slots=True)
class ConfirmShards:
    """Record up to which log time each shard is rolled up."""

    rolled: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ConfirmFamilies:
    """Record that families were rolled up now: these, and known ones that had nothing open."""

    families: frozenset[str]
    failed: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadDays:
    """Answered by a retention.Days."""

    partitions: int


@dataclass(frozen=True, slots=True)
class ConfirmFinal:
    """Record that days (or months) are held for good by the grain."""

    grain: Finished
    days: Sequence[date]
    partitions: int


@dataclass(frozen=True, slots=True)
class ConfirmDeleted:
    """Record that ClickHouse has taken a deletion on."""

    deletion: Delete
    partitions: int


Operation = (
    ReadProgress
    | CountOpen
    | Roll
    | ConfirmShards
    | ConfirmFamilies
    | ReadDays
    | ConfirmFinal
    | ConfirmDeleted
    | retention.Fold
    | retention.Drop
    | retention.Delete
)


@dataclass(slots=True)
class Rolled:
    """What a pass did. `problems` has what ClickHouse refused to roll up, family by family."""

    open_cells: int = 0
    statements: int = 0
    final_days: list[date] = field(default_factory=list)
    dropped: list[Drop] = field(default_factory=list)
    deleted: list[Delete] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    took_s: float = 0.0


def rollup_pass(
    partitions: int, families: Families, longest_query_ms: int
) -> Generator[Operation, Any, Rolled]:
    """Roll up what is open, then let go of what is past its retention.

    `partitions` is how many Kafka reports. An OperatorError thrown in where a Roll was yielded
    means that ClickHouse refused it: other families go on, but nothing is recorded as rolled up.
    """
    done = Rolled()
    progress: Progress = yield ReadProgress()
    yield from _roll_up(open_slots(progress, partitions), progress.flushed, done)
    if done.problems:
        return done
    yield ConfirmShards(progress.flushed)
    least_ms = least_log_ms(progress, partitions)
    if least_ms is not None:
        yield from _let_go(partitions, least_ms, families, longest_query_ms, done)
    return done


def open_slots(progress: Progress, partitions: int) -> Open:
    """What is still to be rolled up, or to be rolled up again."""
    since = {shard: slot_of(log_ms) for shard, log_ms in progress.rolled.items()}
    # A flushed shard that Kafka did not report is newer than the report, and is recorded as well.
    shards = {*range(partitions), *progress.flushed}
    return Open(since, min((since.get(shard, 0) for shard in shards), default=0))


def least_log_ms(progress: Progress, partitions: int) -> int | None:
    """Up to which log time every partition is rolled up; None when one has never been flushed."""
    reached = [
        max(progress.flushed.get(shard, 0), progress.rolled.get(shard, 0))
        for shard in range(partitions)
    ]
    least_ms = min(reached, default=0)
    return least_ms or None


def _roll_up(
    slots: Open, flushed: Mapping[int, int], done: Rolled
) -> Generator[Operation, Any, None]:
    found: list[tuple[Kind, date, str, int]] = []
    for kind in KINDS:
        rows: list[tuple[date, str, int]] = yield CountOpen(slots, kind)
        found += [(kind, *row) for row in rows]
    done.open_cells = sum(cells for *_, cells in found)
    failed: set[str] = set()
    for day in sorted({day for _, day, _, _ in found}):
        for kind in KINDS:
            cells = {family: count for one, at, family, count in found if (one, at) == (kind, day)}
            failed |= yield from _roll_day(kind, day, cells, slots, done)
        if not failed:
            # A pass that has weeks to catch up with, and is cut short, need not begin anew.
            end_ms = retention.end_ms(day)
            yield ConfirmShards({shard: min(log_ms, end_ms) for shard, log_ms in flushed.items()})
    open_families = {family for _, _, family, _ in found}
    yield ConfirmFamilies(frozenset(open_families - failed), frozenset(failed))


def _roll_day(
    kind: Kind, day: date, cells: Mapping[str, int], slots: Open, done: Rolled
) -> Generator[Operation, Any, set[str]]:
    """Roll up what is open of a slot day; the families that ClickHouse refused."""
    failed: set[str] = set()
    for names, parts in batches(cells):
        for part in range(parts):
            try:
                for grain in ("1h", "1d"):
                    yield Roll(grain, day, names[0], names[-1], part, parts, slots, kind)
                    done.statements += 1
            except OperatorError as error:
                failed.update(names)
                done.problems.append(f"families {names[0]} to {names[-1]}: {error}")
    return failed


def batches(cells: Mapping[str, int]) -> Iterator[tuple[list[str], int]]:
    """Families of one day put together, neighbours by name, up to BATCH_CELLS cells each.

    A family that has more is alone, with a number of shares to do one by one.
    """
    names: list[str] = []
    total = 0
    for family in sorted(cells):
        if names and total + cells[family] > BATCH_CELLS:
            yield names, _shares(total)
            names, total = [], 0
        names.append(family)
        total += cells[family]
    if names:
        yield names, _shares(total)


def _shares(cells: int) -> int:
    return max(1, -(-cells // BATCH_CELLS))


def _let_go(
    partitions: int, least_ms: int, families: Families, longest_query_ms: int, done: Rolled
) -> Generator[Operation, Any, None]:
    days: retention.Days = yield ReadDays(partitions)
    done.final_days = retention.newly_final(days, least_ms)
    if done.final_days:
        yield ConfirmFinal("1d", done.final_days, partitions)
    # A broker's clock that jumped ahead makes the log old at once; ClickHouse's does not follow it.
    aged_ms = min(least_ms, days.now_ms)
    for shares in retention.folds(days, aged_ms, families, BATCH_CELLS):
        # Not `yield from`: answers are sent in, which a list does not take.
        for share in shares:  # noqa: UP028
            yield share
        yield ConfirmFinal("life", [shares[0].month], partitions)
    for removal in retention.removals(days, aged_ms, families, longest_query_ms):
        yield removal
        if isinstance(removal, retention.Delete):
            yield ConfirmDeleted(removal, partitions)
            done.deleted.append(removal)
        else:
            done.dropped.append(removal)
