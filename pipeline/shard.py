"""A shard's state: one partition's position, log time, rules, ids and live cells.

Pure, like the cells it holds. What becomes of a row depends on the log alone: its order, its bytes
and its timestamps. So a new owner, a zombie and a replay compute the same cells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.cells import WINDOW_MS, Came, CellKey, CellValues, Purpose, SlotCells
from pipeline.columnar import absorb_columns
from pipeline.distinct import ShardDistinct
from pipeline.ids import Occurrence, Place, SeenIds, id_key
from pipeline.ledger import Ledger, log_times
from pipeline.once.members import Members, refusal
from pipeline.placing import (
    EARLY_REASON,
    OVERFLOW_REASON,
    STRICT_REASON,
    Misplaced,
    late_reason,
    slot_of,
)
from pipeline.refused import RefusedPlaces
from pipeline.rules import EARLINESS_MS, CountingRules
from pipeline.sketched import SlotSketches
from pipeline.slots import spill_counter
from pipeline.summaries import CountedRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from pipeline.adjustments.placed import Placed
    from pipeline.cells import Int64Column, SlotSnapshot
    from pipeline.distinct import DistinctSnapshot
    from pipeline.ledger import Written
    from pipeline.once.filters import FilterName
    from pipeline.once.members import MembersSnapshot
    from pipeline.refused import RefusedFact, RefusedPlace
    from pipeline.sketched import SketchBytes, SketchSnapshot
    from pipeline.summaries import Summarised

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
    member: str | None = None


class BatchMark(NamedTuple):
    """A record batch of the log, told by its checksum. Another one in its place is another log."""

    base_offset: int
    crc: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """What the log says of a fetch beside its rows, each in log order.

    `offsets` and `timestamps_ms` are of every record, good or bad, because all of them move log
    time. `refused` are the places that the decoder refused; `retries` has the refused place that a
    record retries by the record's offset.
    """

    offsets: Int64Column
    timestamps_ms: Int64Column
    next_offset: int
    rules: Sequence[tuple[int, CountingRules]] = ()
    refused: Sequence[Place] = ()
    retries: Mapping[int, RefusedPlace] = field(default_factory=dict)

    def refused_place(self, place: Place) -> RefusedPlace:
        """A place with its log time; that of a retry is the one of what it retries."""
        if (retried := self.retries.get(place[0])) is not None:
            return (*place, retried[2])
        return (*place, int(self.timestamps_ms[np.searchsorted(self.offsets, place[0])]))


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
    distinct: DistinctSnapshot
    sketches: list[SketchSnapshot]
    checkpoint: list[SlotSnapshot]
    sketch_values: list[SketchSnapshot]
    new_ids: list[Occurrence]
    old_ids: list[Occurrence]
    refused_from: Place | None
    new_refused: list[RefusedFact]
    old_refused: list[RefusedFact]
    adjustments: list[Placed]
    ledger: list[Written]
    open_entry: Written | None
    members: MembersSnapshot | None
    once_since: dict[str, int]
    once_filled: dict[FilterName, int]

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
        for sketches in self.sketches if purpose == "flush" else self.sketch_values:
            sketches.confirm()
        if purpose == "flush":
            self.distinct.confirm()
            self.shard.ledger.confirm(self.ledger)
            del self.shard.adjustments[: len(self.adjustments)]
        if purpose == "checkpoint":
            last = self.new_ids[-1] if self.new_ids else None
            self.shard.ids.confirm(last, len(self.old_ids))
            self.shard.refused.confirm(len(self.new_refused), len(self.old_refused))


@dataclass(slots=True)
class Shard:
    """One partition as its owner sees it.

    `position` is the next offset to count; `log_ms` is the greatest log timestamp so far, which is
    the time that slots and lateness go by. `incarnation` tells apart what was counted before and
    after a log was lost; `replica` is the name under which it is counted. What the log has before
    `counts_from_ms` only warms it up: rules, ids and refused places are learnt from it, and nothing
    of its slots is written. Not thread-safe: one event loop owns it.
    """

    partition: int
    position: int = 0
    log_ms: int = 0
    incarnation: int = 0
    rules: CountingRules = field(default_factory=CountingRules)
    last_batch: BatchMark | None = None
    ids: SeenIds = field(default_factory=SeenIds)
    refused: RefusedPlaces = field(default_factory=RefusedPlaces)
    slots: dict[int, SlotCells] = field(default_factory=dict)
    distinct: ShardDistinct = field(default_factory=ShardDistinct)
    sketches: dict[int, SlotSketches] = field(default_factory=dict)
    adjustments: list[Placed] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    members: Members = field(default_factory=Members)
    replica: str = ""
    counts_from_ms: int = 0
    # Recovered cells may be ahead of the position. Up to this offset rows are compared with their
    # cell's `through`; past it no cell can have seen them and the comparison is saved.
    guard_through: int = NOTHING_COUNTED
    changes: int = 0

    def absorb_rows(self, rows: Iterable[Row], fetched: Fetched) -> list[Misplaced]:
        """Count `rows`, in log order, and move the position past the fetch.

        Returns the rows that were refused.
        """
        self.changes += 1
        log_ms = log_times(fetched.timestamps_ms, self.log_ms)
        self.ledger.tell(self.position, fetched.offsets, log_ms)
        told = _Told(self, fetched)
        misplaced: list[Misplaced] = []
        counted = CountedRows()
        for row in rows:
            told.up_to(row)
            came = self._absorb_row(row, fetched.retries.get(row.offset), counted)
            if came is not None:
                misplaced.append(Misplaced(row.offset, row.row, came))
                self.ledger.at(slot_of(self.log_ms)).refused += 1
                self.refused.refuse(fetched.refused_place((row.offset, row.row)))
        for part in counted.parts():
            self.summarise(part)
        told.all()
        unreadable = [offset for offset, _ in fetched.refused]
        self.ledger.refuse(unreadable, fetched.offsets, log_ms, unreadable=True)
        self.position = max(self.position, fetched.next_offset)
        return misplaced

    def absorb_columns(self, columns: pa.Table, fetched: Fetched) -> list[Misplaced]:
        """As `absorb_rows`, for the decoder's columns: faster from about a hundred rows on.

        Not for fetches with retries, which are rare and must be told in their order.
        """
        self.changes += 1
        misplaced = absorb_columns(self, columns, fetched)
        for place in sorted([*fetched.refused, *((one.offset, one.row) for one in misplaced)]):
            self.refused.refuse(fetched.refused_place(place))
        self.position = max(self.position, fetched.next_offset)
        return misplaced

    def apply(self, rules: CountingRules, offset: int) -> None:
        """From an offset on these rules hold, unless a greater version holds already."""
        if rules.supersedes(self.rules):
            self.members.change(self.rules, rules, offset)
            self.rules = rules
            for cells in self.slots.values():
                cells.recount(rules)

    def adjust(self, placed: Iterable[Placed]) -> None:
        """Keep adjustments, in log order, until a flush has confirmed them."""
        self.adjustments += [one for one in placed if one.log_ms >= self.counts_from_ms]

    def is_first(
        self, counter: str, id_: str, place: Place, log_ms: int, retried: Place | None = None
    ) -> bool:
        """Whether the id has not occurred within its family's horizon. Remembers it.

        Where it is the one of a `retried` place that claimed it, it has not.
        """
        occurrence = Occurrence(id_key(counter, id_), *place, log_ms)
        horizon_ms = self.rules.of(counter).ids_horizon_ms
        return self.ids.claim(occurrence, horizon_ms, self.rules, retried)

    def restore(self, slot_ms: int, values: CellValues) -> None:
        """Put back recovered cells of a slot, dirty for both purposes."""
        self.changes += 1
        cells = self.slot(slot_ms)
        cells.restore(values, self.changes, self.position, self.rules)
        self.guard_through = max(self.guard_through, cells.greatest_through())

    def restore_sketch(self, slot_ms: int, found: SketchBytes) -> None:
        """Put back a recovered sketch, dirty for both purposes."""
        self.changes += 1
        self._sketches_of(slot_ms).restore(found, self.changes, self.position)

    def snapshot(self, *, checkpoint: bool) -> ShardSnapshot:
        """The position and copies of the cells to flush, and what to checkpoint if asked for."""
        self._forget_warm_up()
        return ShardSnapshot(
            shard=self,
            position=self.position,
            log_ms=self.log_ms,
            incarnation=self.incarnation,
            rules=self.rules,
            last_batch=self.last_batch,
            ids_from=self.ids.first_place(),
            flush=self._dirty("flush"),
            distinct=self.distinct.snapshot(),
            sketches=self._dirty_sketches("flush"),
            checkpoint=self._dirty("checkpoint") if checkpoint else [],
            sketch_values=self._dirty_sketches("checkpoint") if checkpoint else [],
            new_ids=self.ids.unsaved() if checkpoint else [],
            old_ids=self.ids.forgotten() if checkpoint else [],
            refused_from=self.refused.first_place(),
            new_refused=self.refused.unsaved() if checkpoint else [],
            old_refused=self.refused.forgotten() if checkpoint else [],
            adjustments=list(self.adjustments),
            ledger=self.ledger.unconfirmed(self.counts_from_ms),
            open_entry=self.ledger.latest(),
            members=self.members.snapshot(self.position) if checkpoint else None,
            once_since=dict(self.members.since),
            once_filled=self.members.filled(),
        )

    def close_slots(self, log_ms: int) -> tuple[list[SlotCells], list[SlotSketches]]:
        """Let go of the clean slots that were over at `log_ms`, a committed position's log time.

        No row after that position can fall into them, so they never change again.
        """
        over = slot_of(log_ms)
        cells = [one for one in self.over(log_ms) if one.is_clean()]
        sketches = [one for one in self.sketches.values() if one.slot_ms < over and one.is_clean()]
        for closed in cells:
            del self.slots[closed.slot_ms]
        for gone in sketches:
            del self.sketches[gone.slot_ms]
        return cells, sketches

    def over(self, log_ms: int) -> list[SlotCells]:
        """The cells of slots that were over at a log time."""
        return [one for one in self.slots.values() if one.slot_ms < slot_of(log_ms)]

    def live_cells(self) -> int:
        """How many cells are in memory."""
        return sum(map(len, self.slots.values()))

    def slot(self, slot_ms: int) -> SlotCells:
        """The cells of a slot, made if there are none."""
        cells = self.slots.get(slot_ms)
        if cells is None:
            cells = self.slots[slot_ms] = SlotCells(slot_ms)
        return cells

    def _absorb_row(
        self, row: Row, retried: RefusedPlace | None, counted: CountedRows
    ) -> str | None:
        """Count one row, or say why not."""
        entry = self.ledger.at(slot_of(self.log_ms))
        entry.read(row.delta)
        first = retried is None or self.refused.retry(retried, row.offset)
        family = self.rules.of(row.counter)
        if family.strict is not None:
            return STRICT_REASON
        if row.at_ms < self.log_ms - family.lateness_ms:
            return late_reason(family.lateness_ms)
        if row.at_ms > self.log_ms + EARLINESS_MS:
            return EARLY_REASON
        once = family.once_per_member
        if once and (reason := refusal(family, row.delta, row.member)) is not None:
            return reason
        if first and row.id is not None:
            place = (row.offset, row.row)
            origin = None if retried is None else retried[:2]
            first = self.is_first(row.counter, row.id, place, self.log_ms, origin)
        if first and once and row.member is not None:
            first = self.members.count(
                row.counter, row.member, row.delta, row.offset, family.once_per_error
            )
        cells = self.slot(slot_of(self.log_ms))
        region = row.region if family.regions else ""
        key = CellKey(row.counter, region, row.at_ms - row.at_ms % WINDOW_MS)
        came = self.put(cells, key, row.delta if first else 0, row.offset)
        if came == Came.TOO_MUCH:
            return OVERFLOW_REASON
        entry.count(row.delta, duplicate=not first)
        if first:
            counted.add(cells.slot_ms, self.rules, row, region, spilled=came == Came.SPILLED)
        return None

    def put(self, cells: SlotCells, key: CellKey, delta: int, offset: int) -> Came:
        """Count a row into its cell, or into the rest of its family when that may open no more.

        A delta of 0 is a duplicate.
        """
        text, came = key.text(), Came.COUNTED
        if self.rules.of(key.counter).sketched or not (
            cells.has(text) or cells.opened.admit_one(text, key.counter, self.rules)
        ):
            rest = spill_counter(self.rules.group_of(key.counter))
            text, came = CellKey(rest, "", key.window_ms).text(), Came.SPILLED
            cells.opened.ahead.discard(text)  # It is open from here on, whoever opened it first.
        return came if cells.add(text, delta, offset, self.changes) else Came.TOO_MUCH

    def summarise(self, counted: Summarised) -> None:
        """Take rows that were counted into what is kept beside cells."""
        if counted.slot_ms < self.counts_from_ms:
            return
        if (members := counted.members()) is not None:
            self.distinct.absorb(members, counted.slot_ms, counted.rules)
        if counted.spilled.any():
            self._sketches_of(counted.slot_ms).absorb(counted.rest(), self.changes, counted.rules)

    def _forget_warm_up(self) -> None:
        """Let go of slots that only warmed the shard up; of an open one caps need the cells."""
        over = min(slot_of(self.log_ms), self.counts_from_ms)
        for slot_ms in [one for one in self.slots if one < over]:
            del self.slots[slot_ms]

    def _sketches_of(self, slot_ms: int) -> SlotSketches:
        if slot_ms not in self.sketches:
            self.sketches[slot_ms] = SlotSketches(slot_ms)
        return self.sketches[slot_ms]

    def _dirty_sketches(self, purpose: Purpose) -> list[SketchSnapshot]:
        parts = (sketches.snapshot(purpose) for sketches in self.sketches.values())
        return [part for part in parts if part.changes]

    def _dirty(self, purpose: Purpose) -> list[SlotSnapshot]:
        parts = (
            cells.snapshot(purpose)
            for slot_ms, cells in self.slots.items()
            if slot_ms >= self.counts_from_ms
        )
        return [part for part in parts if len(part.rows)]


class _Told:
    """Tells a shard, as its rows are counted one by one, what the log says between them."""

    def __init__(self, shard: Shard, fetched: Fetched) -> None:
        self._shard = shard
        self._times = list(
            zip(fetched.offsets.tolist(), fetched.timestamps_ms.tolist(), strict=True)
        )
        self._rules = list(fetched.rules)
        self._refused = list(fetched.refused)
        self._fetched = fetched
        self._times.reverse()
        self._rules.reverse()
        self._refused.reverse()

    def up_to(self, row: Row) -> None:
        """Tell everything that stands before the row, and its own timestamp."""
        while self._times and self._times[-1][0] <= row.offset:
            self._shard.log_ms = max(self._shard.log_ms, self._times.pop()[1])
        while self._rules and self._rules[-1][0] <= row.offset:
            offset, rules = self._rules.pop()
            self._shard.apply(rules, offset)
        while self._refused and self._refused[-1] < (row.offset, row.row):
            self._refuse(self._refused.pop())

    def all(self) -> None:
        """Tell the rest."""
        for _, timestamp_ms in self._times:
            self._shard.log_ms = max(self._shard.log_ms, timestamp_ms)
        for offset, later in reversed(self._rules):
            self._shard.apply(later, offset)
        for place in reversed(self._refused):
            self._refuse(place)

    def _refuse(self, place: Place) -> None:
        """A refused record that was a retry has used up the place it names all the same."""
        if (retried := self._fetched.retries.get(place[0])) is not None:
            self._shard.refused.retry(retried, place[0])
        self._shard.refused.refuse(self._fetched.refused_place(place))
