"""A shard's ledger: what the log has in each slot, and what became of it. Pure.

The numbers are summed from a fetch's columns before rows are grouped into cells, and are a function
of the log alone, as cells are; so both can be held against each other, and against the log. They
only grow. A slot's entry is written with every flush as it stands, before the position; what is
open at a position is in its record in the changelog, so that a new owner goes on from there.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pipeline.cells import CELL_MAX
from pipeline.slots import SLOT_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pipeline.cells import Int64Column

ROWS_AT_ONCE = 2**22
"""So many deltas, of at most 2^40 each, can be summed in 64 bits."""

Written = tuple[int, ...]
"""An entry as it is stored: its slot, then its numbers, none above what a column holds."""


@dataclass(slots=True)
class Entry:
    """The numbers of one slot; schemas/sql/0013_slots.sql says what each is."""

    records: int = 0
    rows: int = 0
    added: int = 0
    taken: int = 0
    counted: int = 0
    p: int = 0
    n: int = 0
    duplicates: int = 0
    refused: int = 0
    unreadable: int = 0
    first: int = 0
    through: int = -1

    def read(self, delta: int) -> None:
        """The log has a row with this delta."""
        self.rows += 1
        if delta > 0:
            self.added += delta
        else:
            self.taken -= delta

    def count(self, delta: int, *, duplicate: bool) -> None:
        """A row was counted, or skipped because of its id."""
        if duplicate:
            self.duplicates += 1
            return
        self.counted += 1
        if delta > 0:
            self.p += delta
        else:
            self.n -= delta

    def written(self, slot_ms: int) -> Written:
        """As it is stored."""
        return (slot_ms, *(min(number, CELL_MAX) for number in astuple(self)))


class Ledger:
    """The entries that are open, or not confirmed yet. Owned by its shard."""

    def __init__(self, latest: Written | None = None) -> None:
        """`latest` is what the changelog has of the slot that was open at the shard's position."""
        self._entries: dict[int, Entry] = {}
        self._confirmed: dict[int, int] = {}
        self._latest: int | None = None
        if latest is not None:
            self._latest = latest[0]
            self._entries[latest[0]] = Entry(*latest[1:])

    def tell(self, position: int, offsets: Int64Column, log_ms: Int64Column) -> None:
        """The log has records at `offsets`, with log time as it is there.

        The first one ever begins its slot at the shard's `position`.
        """
        for start, end in slot_runs(log_ms):
            slot_ms = int(log_ms[start]) // SLOT_MS * SLOT_MS
            entry = self._entries.get(slot_ms)
            if entry is None:
                before = None if self._latest is None else self._entries[self._latest]
                first = position if before is None else before.through + 1
                entry = self._entries[slot_ms] = Entry(first=first)
                self._latest = slot_ms
            entry.records += end - start
            entry.through = int(offsets[end - 1])

    def at(self, slot_ms: int) -> Entry:
        """The entry of a slot that records were told of."""
        return self._entries[slot_ms]

    def read(self, row_log_ms: Int64Column, delta: Int64Column) -> None:
        """The log has rows with these deltas at these log times."""
        for start, end in slot_runs(row_log_ms):
            entry = self._entries[int(row_log_ms[start]) // SLOT_MS * SLOT_MS]
            part = delta[start:end]
            taken = -_total(part[part < 0]) if int(part.min()) < 0 else 0
            entry.rows += end - start
            entry.taken += taken
            entry.added += _total(part) + taken

    def count(self, slot_ms: int, rows: pa.Table) -> None:
        """Rows of a slot, with `p`, `n` and perhaps `duplicates`, were counted or skipped."""
        entry = self._entries[slot_ms]
        skipped = "duplicates" in rows.column_names
        duplicates = _total(rows["duplicates"].to_numpy()) if skipped else 0
        entry.counted += rows.num_rows - duplicates
        entry.duplicates += duplicates
        entry.p += _total(rows["p"].to_numpy())
        entry.n += _total(rows["n"].to_numpy())

    def refuse(
        self,
        places: Sequence[int],
        offsets: Int64Column,
        log_ms: Int64Column,
        *,
        unreadable: bool = False,
    ) -> None:
        """What is at `places`, offsets of records among `offsets`, became a dead letter each."""
        if not places:
            return
        at_ms = log_ms[np.searchsorted(offsets, np.array(places, np.int64))]
        slots, counts = np.unique(at_ms // SLOT_MS, return_counts=True)
        for slot, count in zip(slots.tolist(), counts.tolist(), strict=True):
            entry = self._entries[slot * SLOT_MS]
            if unreadable:
                entry.unreadable += count
            else:
                entry.refused += count

    def latest(self) -> Written | None:
        """The entry of the slot that is open, for the changelog; None before the first record."""
        return None if self._latest is None else self._entries[self._latest].written(self._latest)

    def unconfirmed(self, since_ms: int) -> list[Written]:
        """Those that ClickHouse does not have as they are; none of slots before `since_ms`."""
        self._let_go(since_ms)
        return [
            entry.written(slot_ms)
            for slot_ms, entry in self._entries.items()
            if slot_ms >= since_ms and entry.records > self._confirmed.get(slot_ms, 0)
        ]

    def confirm(self, stored: Sequence[Written]) -> None:
        """ClickHouse has these. Every change comes with a record, so their number tells it all."""
        for slot_ms, records, *_ in stored:
            if slot_ms in self._entries:
                self._confirmed[slot_ms] = max(records, self._confirmed.get(slot_ms, 0))
        self._let_go(0)

    def _let_go(self, since_ms: int) -> None:
        """Forget entries that are over, and confirmed or of slots before `since_ms`."""
        over = [
            slot_ms
            for slot_ms, entry in self._entries.items()
            if slot_ms != self._latest
            and (slot_ms < since_ms or entry.records <= self._confirmed.get(slot_ms, 0))
        ]
        for slot_ms in over:
            del self._entries[slot_ms]
            self._confirmed.pop(slot_ms, None)


def log_times(timestamps_ms: Int64Column, before_ms: int) -> Int64Column:
    """Log time at each record, when it was `before_ms` before the first."""
    return np.maximum.accumulate(np.maximum(timestamps_ms, before_ms))


def slot_runs(log_ms: Int64Column) -> Iterator[tuple[int, int]]:
    """Where what falls into each slot begins and ends: log time only grows."""
    size = len(log_ms)
    if not size:
        return
    if log_ms[0] // SLOT_MS == log_ms[-1] // SLOT_MS:
        yield 0, size
        return
    cuts = np.flatnonzero(np.diff(log_ms // SLOT_MS)) + 1
    yield from pairwise([0, *cuts.tolist(), size])


def _total(values: Int64Column) -> int:
    parts = range(0, len(values), ROWS_AT_ONCE)
    return sum(int(values[start : start + ROWS_AT_ONCE].sum()) for start in parts)
