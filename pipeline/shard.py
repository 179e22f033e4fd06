"""A shard's state: one partition's position, log time, rules, ids and live cells.

Pure, like the cells it holds. What becomes of a row depends on the log alone: its order, its bytes
and its timestamps. So a new owner, a zombie and a replay compute the same cells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pipeline.cells import WINDOW_MS, CellKey, CellValues, Purpose, SlotCells
from pipeline.columnar import absorb_columns
from pipeline.ids import Occurrence, Place, SeenIds, id_key
from pipeline.placing import EARLY_REASON, OVERFLOW_REASON, Misplaced, late_reason, slot_of
from pipeline.rules import EARLINESS_MS, CountingRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from pipeline.cells import Int64Column, SlotSnapshot

NOTHING_COUNTED = -1


class Row(NamedTuple):
    """One increment at its place in the log."""

    offset: int
    row: int
    counter: str
    region: str
    at_ms: int
    delta: int
    id: str | None


class BatchMark(NamedTuple):
    """A record batch of the log, told by its checksum. Another one in its place is another log."""

    base_offset: int
    crc: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ShardSnapshot:
    """A shard at one moment: where it is, and a copy of what is dirty for each purpose."""

    shard: Shard
    position: int
    log_ms: int
    incarnation: int
    rules: CountingRules
    last_batch: BatchMark | None
    ids_from: Place | None
    flush: list[SlotSnapshot]
    checkpoint: list[SlotSnapshot]
    new_ids: list[Occurrence]
    old_ids: list[Occurrence]

    @property
    def unflushed(self) -> int:
        """How many cells ClickHouse did not have."""
        return sum(len(part.rows) for part in self.flush)

    @property
    def uncheckpointed(self) -> int:
        """How many cells the changelog did not have."""
        return sum(len(part.rows) for part in self.checkpoint)

    def confirm(self, purpose: Purpose) -> None:
        """What the snapshot holds for `purpose` is stored."""
        for part in self.flush if purpose == "flush" else self.checkpoint:
            part.confirm()
        if purpose == "checkpoint":
            last = self.new_ids[-1] if self.new_ids else None
            self.shard.ids.confirm(last, len(self.old_ids))


@dataclass(slots=True)
class Shard:
    """One partition as its owner sees it.

    `position` is the next offset to count; `log_ms` is the greatest log timestamp so far, which is
    the time that slots and lateness go by. `incarnation` tells apart what was counted before and
    after a log was lost; `replica` is the name under which it is counted. Not thread-safe: one
    event loop owns it.
    """

    partition: int
    position: int = 0
    log_ms: int = 0
    incarnation: int = 0
    rules: CountingRules = field(default_factory=CountingRules)
    last_batch: BatchMark | None = None
    ids: SeenIds = field(default_factory=SeenIds)
    slots: dict[int, SlotCells] = field(default_factory=dict)
    replica: str = ""
    duplicates: int = 0
    # Recovered cells may be ahead of the position. Up to this offset rows are compared with their
    # cell's `through`; past it no cell can have seen them and the comparison is saved.
    guard_through: int = NOTHING_COUNTED
    changes: int = 0

    def absorb_rows(
        self,
        rows: Iterable[Row],
        log: Sequence[tuple[int, int]],
        rules: Sequence[tuple[int, CountingRules]],
        next_offset: int,
    ) -> list[Misplaced]:
        """Count `rows`, in log order, and move the position to `next_offset`.

        `log` has offset and timestamp of every record, good or bad, because all of them move log
        time; `rules` has the offsets of rules records. Returns the rows that were refused.
        """
        self.changes += 1
        misplaced: list[Misplaced] = []
        told, applied = 0, 0
        for row in rows:
            while told < len(log) and log[told][0] <= row.offset:
                self.log_ms = max(self.log_ms, log[told][1])
                told += 1
            while applied < len(rules) and rules[applied][0] <= row.offset:
                self.apply(rules[applied][1])
                applied += 1
            if (reason := self._absorb_row(row)) is not None:
                misplaced.append(Misplaced(row.offset, row.row, reason))
        self.log_ms = max([self.log_ms, *(timestamp_ms for _, timestamp_ms in log[told:])])
        for _, later in rules[applied:]:
            self.apply(later)
        self.position = max(self.position, next_offset)
        return misplaced

    def absorb_columns(
        self,
        columns: pa.Table,
        offsets: Int64Column,
        timestamps_ms: Int64Column,
        rules: Sequence[tuple[int, CountingRules]],
        next_offset: int,
    ) -> list[Misplaced]:
        """As `absorb_rows`, for the decoder's columns: faster from about a hundred rows on."""
        self.changes += 1
        misplaced = absorb_columns(self, columns, offsets, timestamps_ms, rules)
        self.position = max(self.position, next_offset)
        return misplaced

    def apply(self, rules: CountingRules) -> None:
        """From here on these rules hold, unless a greater version holds already."""
        if rules.version > self.rules.version:
            self.rules = rules

    def is_first(self, counter: str, id_: str, place: Place, log_ms: int) -> bool:
        """Whether the id has not occurred within its family's horizon. Remembers it."""
        occurrence = Occurrence(id_key(counter, id_), *place, log_ms)
        horizon_ms = self.rules.of(counter).ids_horizon_ms
        first = self.ids.claim(occurrence, horizon_ms, self.rules)
        self.duplicates += not first
        return first

    def restore(self, slot_ms: int, values: CellValues) -> None:
        """Put back recovered cells of a slot, dirty for both purposes."""
        self.changes += 1
        cells = self.slot(slot_ms)
        cells.restore(values, self.changes)
        self.guard_through = max(self.guard_through, cells.greatest_through())

    def snapshot(self, *, checkpoint: bool) -> ShardSnapshot:
        """The position and copies of the cells to flush, and what to checkpoint if asked for."""
        return ShardSnapshot(
            shard=self,
            position=self.position,
            log_ms=self.log_ms,
            incarnation=self.incarnation,
            rules=self.rules,
            last_batch=self.last_batch,
            ids_from=self.ids.first_place(),
            flush=self._dirty("flush"),
            checkpoint=self._dirty("checkpoint") if checkpoint else [],
            new_ids=self.ids.unsaved() if checkpoint else [],
            old_ids=self.ids.forgotten() if checkpoint else [],
        )

    def close_slots(self, log_ms: int) -> list[SlotCells]:
        """Let go of the clean slots that were over at `log_ms`, a committed position's log time.

        No row after that position can fall into them, so they never change again.
        """
        over = slot_of(log_ms)
        closed = [
            cells for slot_ms, cells in self.slots.items() if slot_ms < over and cells.is_clean()
        ]
        for cells in closed:
            del self.slots[cells.slot_ms]
        return closed

    def live_cells(self) -> int:
        """How many cells are in memory."""
        return sum(map(len, self.slots.values()))

    def slot(self, slot_ms: int) -> SlotCells:
        """The cells of a slot, made if there are none."""
        cells = self.slots.get(slot_ms)
        if cells is None:
            cells = self.slots[slot_ms] = SlotCells(slot_ms)
        return cells

    def _absorb_row(self, row: Row) -> str | None:
        """Count one row, or say why not."""
        family = self.rules.of(row.counter)
        if row.at_ms < self.log_ms - family.lateness_ms:
            return late_reason(family.lateness_ms)
        if row.at_ms > self.log_ms + EARLINESS_MS:
            return EARLY_REASON
        if row.id is not None and not self.is_first(
            row.counter, row.id, (row.offset, row.row), self.log_ms
        ):
            return None
        region = row.region if family.regions else ""
        key = CellKey(row.counter, region, row.at_ms - row.at_ms % WINDOW_MS).text()
        cells = self.slot(slot_of(self.log_ms))
        fits = cells.add(key, row.delta, row.offset, self.changes)
        return None if fits else OVERFLOW_REASON

    def _dirty(self, purpose: Purpose) -> list[SlotSnapshot]:
        parts = (cells.snapshot(purpose) for cells in self.slots.values())
        return [part for part in parts if len(part.rows)]
