"""Distinct members: which registers rose and are not in ClickHouse yet. Pure.

Registers are a function of the set of members, and merge by max wherever they are. So they need no
changelog and no guard: before an offset is committed, a flush has confirmed the registers of every
row below it, and rows that were not committed are counted again, by whoever comes next, to the same
registers. What is kept here only saves writing a register twice. It may be forgotten at any time,
and is when it grows past its bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.rules import Grain
from sketches.distinct_many import DistinctMany
from sketches.distinct_many import Raised as RaisedRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pipeline.cells import Int64Column
    from pipeline.rules import CountingRules, FamilyRules
    from sketches.registers import Indexes, Ranks

DAY_MS = 86_400_000

_BITS = 20
_ROWS_AT_ONCE = 1 << _BITS  # so that three numbers below it fit into one

SLOT: Literal["slot"] = "slot"
Written = Grain | Literal["slot"]
"""The grain of the windows that registers are written for, or the slot of log time they rose in."""

TREND_PRECISION = 12
"""Of the registers by which trends know who did it, minute by minute: an error of 1.6 %."""

KNOWN_ROWS_MAX = 50_000
KNOWN_BYTES_MAX = 16 << 20
"""What a shard keeps, of each precision, to know which registers are new; then it begins anew."""

MEMBER_COLUMNS = ("counter", "region", "at", "member")
"""What `absorb` needs of each row: its counter may be the one for the rest of its family."""


class RegistersOf(NamedTuple):
    """Whose registers: a counter's in a region and window, and where they are to be written."""

    counter: str
    region: str
    window_ms: int
    day: int
    """The day of log time, since 1970."""
    precision: int
    grains: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """Registers that rose: those of `of[i]` are from `starts[i]` up to `starts[i + 1]`."""

    of: list[RegistersOf]
    starts: NDArray[np.int32]
    indexes: Indexes
    ranks: Ranks


class _Known:
    """Registers of one precision that were raised, and which of them wait to be written."""

    def __init__(self, precision: int) -> None:
        self.waiting: list[RaisedRows] = []
        self._sketches = DistinctMany(precision)
        self._rows: dict[RegistersOf, int] = {}

    @property
    def is_full(self) -> bool:
        return len(self._rows) > KNOWN_ROWS_MAX or self._sketches.nbytes > KNOWN_BYTES_MAX

    def add(self, of: Sequence[RegistersOf], which: Int64Column, members: pa.Array) -> None:
        """Add `members[i]` to the registers of `of[which[i]]`."""
        for one in of:
            self._rows.setdefault(one, len(self._rows))
        rows = np.fromiter(map(self._rows.__getitem__, of), np.int64, len(of))
        if raised := self._sketches.add_many(rows[which], members):
            self.waiting.append(raised)

    def raised(self) -> Raised:
        """What waits, once each, at its greatest."""
        found = RaisedRows.greatest(self.waiting)
        rows, starts = np.unique(found.rows, return_index=True)
        of = list(self._rows)
        return Raised(
            [of[row] for row in rows.tolist()],
            np.append(starts, len(found)).astype(np.int32),
            found.indexes,
            found.ranks,
        )


@dataclass(frozen=True, slots=True)
class DistinctSnapshot:
    """What waits to be written, at one moment."""

    parts: list[tuple[_Known, int]]
    raised: list[Raised]

    def confirm(self) -> None:
        """It is stored. What rose since stays."""
        for known, waited in self.parts:
            del known.waiting[:waited]


class ShardDistinct:
    """The registers of one shard. Not thread-safe: one event loop owns it."""

    def __init__(self) -> None:
        self._known: list[tuple[int, _Known]] = []

    def absorb(self, rows: pa.Table, slot_ms: int, rules: CountingRules) -> None:
        """Add the members of counted rows (see MEMBER_COLUMNS) that were additions.

        `slot_ms` is the slot of all of them. Rows without a member are passed over.
        """
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            part = rows.slice(start, _ROWS_AT_ONCE)
            part = part.filter(pc.is_valid(part["member"]))
            counters = part["counter"].combine_chunks().dictionary_encode()
            families = [rules.of(name) for name in counters.dictionary.to_pylist()]
            for kept in (_of_windows, _of_slots):
                self._absorb(counters, part, slot_ms, [kept(family) for family in families])

    def _absorb(
        self, counters: pa.DictionaryArray, rows: pa.Table, slot_ms: int, kept_of: list[_Kept]
    ) -> None:
        precision_of = np.array([one.precision for one in kept_of], np.int64)
        precisions = precision_of[counters.indices.to_numpy()]
        for precision in np.unique(precision_of).tolist():
            if precision:
                chosen = precisions == precision
                mask = pa.array(chosen)
                here = rows if chosen.all() else rows.filter(mask)
                codes = counters if chosen.all() else counters.filter(mask)
                of, which = _whose(codes, here, slot_ms, kept_of)
                self._open(precision).add(of, which, here["member"].combine_chunks())

    def snapshot(self) -> DistinctSnapshot:
        """What waits to be written, possibly nothing."""
        waiting = [(known, len(known.waiting)) for _, known in self._known if known.waiting]
        return DistinctSnapshot(waiting, [known.raised() for known, _ in waiting])

    def _open(self, precision: int) -> _Known:
        """Where registers of a precision are raised; those that are full go when all is written."""
        self._known = [
            (of, known) for of, known in self._known if known.waiting or not known.is_full
        ]
        for of, known in self._known:
            if of == precision and not known.is_full:
                return known
        made = _Known(precision)
        self._known.append((precision, made))
        return made


class _Kept(NamedTuple):
    """Which registers of a counter are kept: none where the precision is 0."""

    precision: int
    written: tuple[Written, ...]
    window_ms: int


def _of_windows(family: FamilyRules) -> _Kept:
    return _Kept(family.distinct_precision, family.distinct_grains, family.distinct_window_ms)


def _of_slots(family: FamilyRules) -> _Kept:
    """Their window is the slot, whenever the rows happened: it never changes once it is over."""
    return _Kept(TREND_PRECISION if family.trends.by_members else 0, (SLOT,), 0)


def _whose(
    counters: pa.DictionaryArray, rows: pa.Table, slot_ms: int, kept_of: list[_Kept]
) -> tuple[list[RegistersOf], Int64Column]:
    """Whose registers the rows are for, once each, and which of them each row is for."""
    regions = rows["region"].combine_chunks().dictionary_encode()
    names, in_regions = counters.dictionary.to_pylist(), regions.dictionary.to_pylist()
    counter = counters.indices.to_numpy().astype(np.int64)
    region = regions.indices.to_numpy().astype(np.int64)
    at_ms = rows["at"].to_numpy()
    length_ms = np.array([one.window_ms for one in kept_of], np.int64)[counter]
    starts_ms = np.where(length_ms > 0, at_ms - at_ms % np.maximum(length_ms, 1), slot_ms)
    windows, window = np.unique(starts_ms, return_inverse=True)
    groups, which = np.unique(counter << 2 * _BITS | region << _BITS | window, return_inverse=True)
    places = zip(
        (groups >> 2 * _BITS).tolist(),
        (groups >> _BITS & _ROWS_AT_ONCE - 1).tolist(),
        windows[groups & _ROWS_AT_ONCE - 1].tolist(),
        strict=True,
    )
    day = slot_ms // DAY_MS
    return [
        RegistersOf(
            names[c], in_regions[r], window_ms, day, kept_of[c].precision, kept_of[c].written
        )
        for c, r, window_ms in places
    ], which
