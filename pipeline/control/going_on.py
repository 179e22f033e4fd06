"""The shard that goes on after its log was trimmed, or with another log. Pure.

Either way it begins a new incarnation, whose cells start from zero beside those that were counted
before, and keeps log time and rules. What else it may keep depends on the log.

A log that was only **trimmed** is the same log: places mean what they meant. So the ids and refused
places that were remembered stay as they are. ClickHouse may have more than the last checkpoint: a
flush comes first. What is still there of that is read again, because its ids, refused places, dead
letters and rules were not checkpointed; but it must not be counted again. So for every cell that
ClickHouse has of a slot that is read again, a cell of zeros begins with its `through`: as always,
rows at or below it are skipped. All of them count as open, so caps decide again as they did. Such
cells of zeros are in the changelog alone, until a row is counted into them: when the log is trimmed
once more before that, they are carried over, as all recovered cells are.

In **another log** a place says nothing about the places of the one before. An id stays meaningful
all the same: its record was counted, that count stays, and who sends it again sends a duplicate,
until the horizon is over by log time, which goes on. So ids are kept at places before every log's
beginning, below offset 0 and in their order: earlier than every record of the log, and never the
place that a retry names. Refused places are not kept: a retry names one by its offset, which may be
another record's by now. Where the log has only lost records, what is left of it means what it
meant: a flush that was cut before it told how far it came may have some cells of what is read on,
so these begin with their `through`, as after a trim.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from pipeline.cells import CellValues
from pipeline.changelog import checkpoint_records, filter_records, member_records
from pipeline.ids import SeenIds
from pipeline.shard import NOTHING_COUNTED, Shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.changelog import ChangelogRecord

WRITER = 0
"""Of records that no worker wrote: groups count their generations from 1."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """What ClickHouse has of an incarnation since its last checkpoint.

    `through` is the last offset that was flushed, -1 for none; `slots` has the `through` of the
    cells by slot and cell key.
    """

    through: int
    slots: Mapping[int, Mapping[str, int]]


def is_trimmed(shard: Shard, start: int, end: int, flushed_through: int) -> bool:
    """Whether the log from `start` to `end` can be the one the shard was counted from, trimmed.

    It begins past the shard's position, so nothing that was counted is there to compare. A log made
    anew begins at 0, and one that ends before what was flushed has lost its end.
    """
    return shard.position < start and flushed_through < end


def with_recovered(flushed: Flushed, shard: Shard) -> Flushed:
    """What was flushed, with the cells that were recovered: whatever the changelog has of one was
    flushed first, perhaps under an earlier incarnation. Never raises."""
    slots = {slot_ms: dict(cells) for slot_ms, cells in flushed.slots.items()}
    for slot_ms, recovered in shard.slots.items():
        known, values = slots.setdefault(slot_ms, {}), recovered.values()
        for key, through in zip(values.keys, values.through.tolist(), strict=True):
            known[key] = max(through, known.get(key, through))
    return Flushed(max(flushed.through, shard.guard_through), slots)


def after_trim(shard: Shard, start: int, flushed: Flushed) -> Shard:
    """The shard as it goes on at the beginning of its log, which was trimmed."""
    anew = Shard(
        shard.partition,
        start,
        shard.log_ms,
        shard.incarnation + 1,
        shard.rules,
        shard.last_batch,
        shard.ids,
        shard.refused,
        replica=shard.replica,
        counts_from_ms=shard.counts_from_ms,
        members=shard.members.in_trimmed_log(),
    )
    keep_flushed(anew, flushed, flushed.through + 1)
    return anew


def keep_flushed(anew: Shard, flushed: Flushed, end: int) -> None:
    """Let the shard skip what was flushed of the records from its position on.

    The log ends at `end` now: what will be there was never flushed, though others that were may
    have had these offsets before the log lost them. Never raises.
    """
    for slot_ms, cells in flushed.slots.items():
        if min(max(cells.values(), default=NOTHING_COUNTED), end - 1) >= anew.position:
            anew.restore(slot_ms, _guards(cells, anew.position, end))


def in_other_log(shard: Shard, start: int) -> Shard:
    """The shard as it goes on at an offset of another log."""
    kept = (one._replace(offset=one.offset - shard.position) for one in shard.ids)
    return Shard(
        shard.partition,
        start,
        shard.log_ms,
        shard.incarnation + 1,
        shard.rules,
        ids=SeenIds(kept),
        replica=shard.replica,
        counts_from_ms=shard.counts_from_ms,
        members=shard.members.in_other_log(shard.position),
    )


def first_records(anew: Shard) -> Iterator[ChangelogRecord]:
    """What the changelog must hold of such a shard; the position, which makes it valid, is last."""
    snapshot = replace(
        anew.snapshot(checkpoint=True), new_ids=list(anew.ids), new_refused=list(anew.refused)
    )
    members = anew.members.snapshot(anew.position)
    segment = member_records(members, anew.incarnation, WRITER, segment=0)
    filters = (filter_records(one, anew.incarnation, WRITER) for one in members.filters)
    return checkpoint_records(snapshot, WRITER, members=[*segment, *chain.from_iterable(filters)])


def _guards(cells: Mapping[str, int], start: int, end: int) -> CellValues:
    """Cells without counts that skip what was counted before `end`, open already at `start`."""
    size = len(cells)
    through = np.minimum(np.fromiter(cells.values(), np.int64, size), end - 1)
    p, n, duplicates = np.zeros((3, size), np.int64)
    first = np.full(size, start - 1, np.int64)
    return CellValues(list(cells), p, n, through, first, duplicates)
