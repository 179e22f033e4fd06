"""Counters without cells of their own, in sketches that end with their slot. Pure.

What spills is counted exactly in one cell for the rest of its family, and counter by counter in two
sketches: a Count-Min per region and window, which answers how much any of them has, and a summary
per region, and one of all regions (`*`), which knows the heaviest. Both add, so both carry the last
offset they counted, and rows at or below it are skipped. Their state depends on the rows and their
order alone, so whoever counts the log has the same sketches.

Memory is bounded: by the number of regions, and by that of windows, which become coarser the later
a row is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.sketch_rows import DAY_MS, SpilledRows
from sketches.frequency import Frequency
from sketches.heavy import Heavy
from sketches.through import TOTAL_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.cells import Int64Column, Purpose
    from pipeline.rules import CountingRules, FamilyRules

REGIONS_MAX = 256
"""How many regions of a family have sketches of their own in a slot, the first in the log; others
share those of the unknown region."""

SKETCHES_MAX = 512
"""How many regions and windows of a family have Count-Mins of their own in a slot, the first in the
log; what comes for others is counted in the unknown region and the first minute of its day."""

ALL_REGIONS = "*"

FULL = 2**63 - 1
"""The `through` of a sketch whose total would not fit any more: it counts nothing from there on."""


class SketchOf(NamedTuple):
    """Which sketch of a slot. A summary of the heaviest has no window: it is of the whole slot."""

    group: str
    region: str
    window_ms: int | None = None


@dataclass(slots=True)
class _Open:
    """A sketch, the offset that opened it, its last change, and what was confirmed of it."""

    sketch: Frequency | Heavy
    first: int
    changed: int = 0
    confirmed: dict[Purpose, int] = field(default_factory=lambda: {"flush": 0, "checkpoint": 0})
    # The Count-Min's counters as they were confirmed by a flush: additions, and removals if any.
    flushed: tuple[NDArray[np.int64], NDArray[np.int64] | None] | None = None


@dataclass(frozen=True, slots=True)
class Buckets:
    """Counters of a Count-Min that grew: `buckets[i]` is row * width + column."""

    of: SketchOf
    width: int
    buckets: Int64Column
    p: Int64Column
    n: Int64Column


@dataclass(frozen=True, slots=True)
class Heaviest:
    """The heaviest counters of a slot, with what was added to each for certain."""

    of: SketchOf
    counters: list[str]
    counts: list[int]
    lost: int
    through: int


@dataclass(frozen=True, slots=True)
class SketchBytes:
    """A sketch as the changelog keeps it."""

    of: SketchOf
    first: int
    through: int
    value: bytes


@dataclass(frozen=True, slots=True)
class SketchSnapshot:
    """A copy of what is dirty of a slot's sketches, for one purpose."""

    sketches: SlotSketches
    purpose: Purpose
    changes: dict[SketchOf, int]
    buckets: list[Buckets] = field(default_factory=list)
    heaviest: list[Heaviest] = field(default_factory=list)
    values: list[SketchBytes] = field(default_factory=list)

    def confirm(self) -> None:
        """It is stored. What changed since the snapshot stays dirty."""
        self.sketches.confirm(self)


class SlotSketches:
    """The sketches one shard touched during one slot."""

    def __init__(self, slot_ms: int) -> None:
        self.slot_ms = slot_ms
        self._open: dict[SketchOf, _Open] = {}
        self._regions: dict[str, set[str]] = {}
        self._windows: dict[str, set[tuple[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def absorb(self, rows: pa.Table, change: int, rules: CountingRules) -> None:
        """Count spilled rows (see `SpilledRows.of`; in log order, all of an offset in one call)."""
        counts = pc.or_(pc.greater(rows["p"], 0), pc.greater(rows["n"], 0))
        rows = rows.filter(counts)  # Duplicates count nothing.
        names = rows["counter"].combine_chunks().dictionary_encode()
        groups = [rules.group_of(name) for name in names.dictionary.to_pylist()]
        of_row = np.array(groups, object)[names.indices.to_numpy()]
        for group in sorted(set(groups)):
            here = rows
            if len(set(groups)) > 1:
                here = rows.filter(pa.array(of_row == group))
            if here.num_rows:
                family = rules.families.get(group, rules.default)
                self._absorb(SpilledRows.of(here, self.slot_ms), group, family, change)

    def restore(self, found: SketchBytes, change: int, position: int) -> None:
        """Put a recovered sketch back, dirty for both purposes; the greater `through` wins.

        Where it was opened at or after `position`, its region is not open yet.
        """
        made = (Heavy if found.of.window_ms is None else Frequency).from_bytes(found.value)
        here = self._open.get(found.of)
        if here is None or found.through > _through(here):
            self._open[found.of] = _Open(made, found.first, change)
        if found.first < position:
            if found.of.region != ALL_REGIONS:
                self._regions.setdefault(found.of.group, {""}).add(found.of.region)
            if found.of.window_ms is not None:
                place = (found.of.region, found.of.window_ms)
                self._windows.setdefault(found.of.group, set()).add(place)

    def greatest_through(self) -> int:
        """The last offset any sketch here has counted, -1 for none."""
        return max((_through(one) for one in self._open.values()), default=-1)

    def snapshot(self, purpose: Purpose) -> SketchSnapshot:
        """A copy of what is dirty for `purpose`, possibly nothing."""
        dirty = {of: one for of, one in self._open.items() if one.changed > one.confirmed[purpose]}
        made = SketchSnapshot(self, purpose, {of: one.changed for of, one in dirty.items()})
        for of, one in dirty.items():
            if purpose == "checkpoint":
                value = one.sketch.to_bytes()
                made.values.append(SketchBytes(of, one.first, _through(one), value))
            elif isinstance(one.sketch, Frequency):
                made.buckets.append(_grown(of, one, one.sketch))
            else:
                made.heaviest.append(_heaviest(of, one, one.sketch))
        return made

    def confirm(self, snapshot: SketchSnapshot) -> None:
        """What the snapshot holds is stored."""
        for of, change in snapshot.changes.items():
            self._open[of].confirmed[snapshot.purpose] = change
        for part in snapshot.buckets:
            for table, counters in zip(
                self._open[part.of].flushed or (), (part.p, part.n), strict=False
            ):
                if table is not None:
                    table[part.buckets] = counters

    def is_clean(self) -> bool:
        """True when nothing is dirty for any purpose."""
        return all(
            one.changed <= confirmed
            for one in self._open.values()
            for confirmed in one.confirmed.values()
        )

    def states(self) -> dict[SketchOf, Frequency | Heavy]:
        """Every sketch, to be read only."""
        return {of: one.sketch for of, one in self._open.items()}

    def _absorb(self, rows: SpilledRows, group: str, family: FamilyRules, change: int) -> None:
        rows = replace(rows, regions=self._admitted(group, rows))
        self._add(SketchOf(group, ALL_REGIONS), rows, family, change)
        for region, there in rows.by_region():
            self._add(SketchOf(group, region), there, family, change)
        rows = self._placed(group, rows)
        for region, there in rows.by_region():
            for window_ms in np.unique(there.window_ms).tolist():
                part = there.where(there.window_ms == window_ms)
                self._add(SketchOf(group, region, window_ms), part, family, change)

    def _add(self, of: SketchOf, rows: SpilledRows, family: FamilyRules, change: int) -> None:
        one = self._open.get(of)
        if one is None:
            sketch: Frequency | Heavy = (
                Heavy(family.sketch_keys)
                if of.window_ms is None
                else Frequency.for_error(family.sketch_error)
            )
            one = self._open[of] = _Open(sketch, int(rows.offsets[0]))
        rows = rows.where(rows.offsets > _through(one))
        if not len(rows.offsets):
            return
        fitting = rows.first(_fitting(one.sketch, rows))
        one.sketch.add_many(fitting.counters, fitting.deltas, fitting.offsets)
        if len(fitting.offsets) < len(rows.offsets):
            one.sketch.through = FULL
        one.changed = change

    def _admitted(self, group: str, rows: SpilledRows) -> pa.Array:
        """The rows' regions, those that came too late to have sketches replaced by the unknown."""
        regions = rows.regions.dictionary_encode()  # In the order of the rows.
        names = regions.dictionary.to_pylist()
        known = self._regions.setdefault(group, {""})
        for name in names:
            if len(known) <= REGIONS_MAX:
                known.add(name)
        admitted = pa.array([name if name in known else "" for name in names], pa.string())
        return admitted.take(regions.indices)

    def _placed(self, group: str, rows: SpilledRows) -> SpilledRows:
        """The rows, those for which there may be no more sketches moved to where there is one."""
        regions = rows.regions.dictionary_encode()
        names, code = regions.dictionary.to_pylist(), regions.indices.to_numpy().astype(np.int64)
        windows, window = np.unique(rows.window_ms, return_inverse=True)
        places, first, which = np.unique(
            code * len(windows) + window, return_index=True, return_inverse=True
        )
        known = self._windows.setdefault(group, set())
        moves = np.zeros(len(places), np.bool_)
        for number in np.argsort(first).tolist():  # In the order of the rows.
            region, at = divmod(int(places[number]), len(windows))
            place = (names[region], int(windows[at]))
            if len(known) < SKETCHES_MAX:
                known.add(place)
            moves[number] = place not in known
        if not moves.any():
            return rows
        moved = moves[which]
        days = rows.window_ms - rows.window_ms % DAY_MS
        return replace(
            rows,
            regions=pc.if_else(pa.array(moved), "", rows.regions),
            window_ms=np.where(moved, days, rows.window_ms),
        )


def _through(one: _Open) -> int:
    return -1 if one.sketch.through is None else one.sketch.through


def _fitting(sketch: Frequency | Heavy, rows: SpilledRows) -> int:
    """How many rows, of whole offsets, come before the total would overflow."""
    added = np.cumsum(np.maximum(rows.deltas, 0)) > TOTAL_MAX - sketch.added
    removed = np.cumsum(np.maximum(-rows.deltas, 0)) > TOTAL_MAX - sketch.removed
    over = np.flatnonzero(added | removed)
    if not over.size:
        return len(rows.offsets)
    return int(np.searchsorted(rows.offsets, rows.offsets[over[0]]))


def _grown(of: SketchOf, one: _Open, sketch: Frequency) -> Buckets:
    """The counters that grew since a flush confirmed them."""
    added, removed = (table.ravel() for table in sketch.counters())
    if one.flushed is None:
        one.flushed = (np.zeros_like(added), None)
    if one.flushed[1] is None and sketch.removed:
        one.flushed = (one.flushed[0], np.zeros_like(removed))
    grown = added != one.flushed[0]
    if one.flushed[1] is not None:
        grown |= removed != one.flushed[1]
    buckets = np.flatnonzero(grown)
    return Buckets(of, sketch.width, buckets, added[buckets], removed[buckets])


def _heaviest(of: SketchOf, one: _Open, sketch: Heavy) -> Heaviest:
    counters, counts = sketch.heaviest(sketch.capacity)
    return Heaviest(of, counters, counts, sketch.missed_max, _through(one))
