"""Counts a whole fetch at once, with no Python statement per row. Pure.

What it does to a shard is what `Shard.absorb_rows` does row by row; a property test holds the two
against each other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.caps import spill
from pipeline.cell_groups import CellGroups
from pipeline.cells import WINDOW_MS, Came, CellKey, Counted
from pipeline.ledger import log_times, slot_runs
from pipeline.once.columns import refused_once, repeats, which_once
from pipeline.placing import (
    EARLY_REASON,
    OVERFLOW_REASON,
    STRICT_REASON,
    Misplaced,
    late_reason,
    slot_of,
)
from pipeline.rules import EARLINESS_MS
from pipeline.summaries import Summarised

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.cells import Int64Column, SlotCells
    from pipeline.rules import CountingRules
    from pipeline.shard import Fetched, Shard

    BoolColumn = NDArray[np.bool_]


def absorb_columns(shard: Shard, columns: pa.Table, fetched: Fetched) -> list[Misplaced]:
    """Count the decoder's columns into the shard's cells and move its log time and rules."""
    log_ms = log_times(fetched.timestamps_ms, shard.log_ms)
    row_offset = columns["offset"].to_numpy()
    row_log_ms = log_ms[np.searchsorted(fetched.offsets, row_offset)]
    shard.ledger.tell(shard.position, fetched.offsets, log_ms)
    shard.ledger.read(row_log_ms, columns["delta"].to_numpy())
    misplaced: list[Misplaced] = []
    first = 0
    for offset, later in fetched.rules:
        end = int(np.searchsorted(row_offset, offset))
        misplaced += _absorb_part(shard, columns.slice(first, end - first), row_log_ms[first:end])
        shard.apply(later, offset)
        first = end
    misplaced += _absorb_part(shard, columns.slice(first), row_log_ms[first:])
    if len(log_ms):
        shard.log_ms = int(log_ms[-1])
    ledger, unreadable = shard.ledger, [offset for offset, _ in fetched.refused]
    ledger.refuse([one.offset for one in misplaced], fetched.offsets, log_ms)
    ledger.refuse(unreadable, fetched.offsets, log_ms, unreadable=True)
    return misplaced


def _absorb_part(shard: Shard, columns: pa.Table, log_ms: Int64Column) -> list[Misplaced]:
    """Count rows that one version of the rules holds for."""
    misplaced: list[Misplaced] = []
    if shard.rules.has_strict and columns.num_rows:
        strict = _strict(shard.rules, columns["counter"])
        misplaced += _of_strict(columns, strict)
        columns, log_ms = columns.filter(pa.array(~strict)), log_ms[~strict]
    if not columns.num_rows:
        return misplaced
    at_ms = columns["at"].to_numpy()
    lateness_ms, has_regions = _by_family(shard.rules, columns["counter"])
    late = at_ms < log_ms - lateness_ms
    early = at_ms > log_ms + EARLINESS_MS
    placed = ~(late | early)
    if not placed.all():
        misplaced += _misplaced(columns, lateness_ms, late | early, late)
    once = which_once(shard.rules, columns, placed)
    misplaced += refused_once(shard.rules, columns, once)
    placed[once.refused] = False
    duplicate = _duplicates(shard, columns, log_ms, placed)
    repeats(shard.rules, shard.members, columns, once, duplicate)
    if not placed.all():
        columns, duplicate = columns.filter(pa.array(placed)), duplicate[placed]
        at_ms, log_ms = at_ms[placed], log_ms[placed]
        has_regions = has_regions if has_regions is None else has_regions[placed]
    rows = _rows(columns, at_ms, has_regions, duplicate)
    for start, end in slot_runs(log_ms):
        misplaced += _absorb_slot(shard, int(log_ms[start]), rows.slice(start, end - start))
    misplaced.sort()
    return misplaced


def _absorb_slot(shard: Shard, log_ms: int, rows: pa.Table) -> list[Misplaced]:
    """Count rows that fall into one slot."""
    cells = shard.slot(slot_of(log_ms))
    guard = rows["offset"][0].as_py() <= shard.guard_through or bool(cells.opened.ahead)
    counted = cells.absorb(rows, shard.changes, shard.rules, guard=guard)
    misplaced: list[Misplaced] = []
    if counted is None:
        came = _one_by_one(shard, cells, rows)
        fits = came != Came.TOO_MUCH
        too_much = rows.filter(pa.array(~fits))
        places = zip(too_much["offset"].to_pylist(), too_much["row"].to_pylist(), strict=True)
        misplaced = [Misplaced(*place, OVERFLOW_REASON) for place in places]
        rows, spilled = rows.filter(pa.array(fits)), (came == Came.SPILLED)[fits]
        keys = list(_keys(spill(rows, spilled, shard.rules)))
        counted = Counted(spilled, CellGroups.of_keys(keys))
    shard.ledger.count(cells.slot_ms, rows)
    shard.summarise(Summarised(cells.slot_ms, shard.rules, rows, counted.spilled, counted.groups))
    return misplaced


def _one_by_one(shard: Shard, cells: SlotCells, rows: pa.Table) -> NDArray[np.int8]:
    """Count rows in log order where one may be too much for its cell, or one cell too many."""
    keys = _keys(rows)
    deltas = (rows["p"].to_numpy() - rows["n"].to_numpy()).tolist()
    put = partial(shard.put, cells)
    return np.fromiter(map(put, keys, deltas, rows["offset"].to_pylist()), np.int8, rows.num_rows)


def _keys(rows: pa.Table) -> Iterator[CellKey]:
    fields = (rows[name].to_pylist() for name in CellKey._fields)
    return map(CellKey._make, zip(*fields, strict=True))


def _strict(rules: CountingRules, counter: pa.ChunkedArray) -> BoolColumn:
    """Which rows are of strict families."""
    encoded = counter.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    found = np.array([rules.of(name).strict is not None for name in names], np.bool_)
    of_rows: BoolColumn = found[encoded.indices.to_numpy()]
    return of_rows


def _of_strict(columns: pa.Table, strict: BoolColumn) -> Iterator[Misplaced]:
    places = columns.select(["offset", "row"]).filter(pa.array(strict))
    for offset, row in zip(places["offset"].to_pylist(), places["row"].to_pylist(), strict=True):
        yield Misplaced(offset, row, STRICT_REASON)


def _by_family(
    rules: CountingRules, counter: pa.ChunkedArray
) -> tuple[Int64Column | int, BoolColumn | None]:
    """Each row's allowed lateness, and which rows keep their region; None if all do."""
    if not rules.families:
        default = rules.default
        return default.lateness_ms, None if default.regions else np.zeros(len(counter), np.bool_)
    encoded = counter.combine_chunks().dictionary_encode()
    found = [rules.of(name) for name in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy()
    lateness_ms = np.array([family.lateness_ms for family in found], np.int64)[codes]
    return lateness_ms, np.array([family.regions for family in found], np.bool_)[codes]


def _duplicates(
    shard: Shard, columns: pa.Table, log_ms: Int64Column, placed: BoolColumn
) -> BoolColumn:
    """Which placed rows have an id that occurred before them."""
    duplicate = np.zeros(len(placed), np.bool_)
    ids = columns["id"]
    if ids.null_count == len(ids):
        return duplicate
    claiming = np.flatnonzero(placed & pc.is_valid(ids).to_numpy())
    chosen = columns.select(["counter", "id", "offset", "row"]).take(pa.array(claiming))
    fields = (chosen[name].to_pylist() for name in ("counter", "id", "offset", "row"))
    for index, counter, id_, offset, row in zip(claiming.tolist(), *fields, strict=True):
        duplicate[index] = not shard.is_first(counter, id_, (offset, row), int(log_ms[index]))
    return duplicate


def _misplaced(
    columns: pa.Table, lateness_ms: Int64Column | int, out: BoolColumn, late: BoolColumn
) -> Iterator[Misplaced]:
    # There are few reasons, and there may be many rows: each reason is made once.
    allowed_ms, which = np.unique(np.broadcast_to(lateness_ms, len(out))[out], return_inverse=True)
    reasons = [late_reason(int(one)) for one in allowed_ms]
    offsets, rows = (columns[name].to_numpy()[out].tolist() for name in ("offset", "row"))
    for offset, row, is_late, of in zip(
        offsets, rows, late[out].tolist(), which.tolist(), strict=True
    ):
        yield Misplaced(offset, row, reasons[of] if is_late else EARLY_REASON)


def _rows(
    columns: pa.Table, at_ms: Int64Column, has_regions: BoolColumn | None, duplicate: BoolColumn
) -> pa.Table:
    """What cells and summaries need of each row; its delta is an addition or a removal."""
    delta = columns["delta"].to_numpy()
    region = columns["region"]
    if has_regions is not None and not has_regions.all():
        region = pc.if_else(pa.array(has_regions), region.cast(pa.string()), "")
    rows = {
        "counter": columns["counter"],
        "region": region,
        "window_ms": at_ms - at_ms % WINDOW_MS,
    }
    if duplicate.any():
        delta = np.where(duplicate, 0, delta)
        rows["duplicates"] = duplicate.astype(np.int64)
    rows["p"], rows["n"] = np.maximum(delta, 0), np.maximum(-delta, 0)
    same = {name: columns[name] for name in ("offset", "row", "at", "member")}
    return pa.table({**rows, **same})
