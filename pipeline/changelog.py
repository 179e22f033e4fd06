"""What the table's changelog holds. Pure.

The changelog is compacted, so the last write of a key wins, and a woken zombie may write last. The
keys of cells, sketches and positions therefore end with the number of their writer, which is the
generation of the group in which it owned the partition, counted on when a group begins anew: a
zombie overwrites its own records only, and recovery takes the greatest `through` over writers.
Records of ids and of refused places say the same whoever writes them, and need none.

Seven kinds of record, in MessagePack, each key beginning with the format's version:

    cell      [2, "cell", incarnation, slot_ms, cell key, writer]       see CELL_VALUE
    sketch    [2, "sketch", incarnation, slot_ms, group, region,
               window_ms, through, part, parts, writer]                 [first, bytes]
    position  [2, "position", offset, writer]                           see PositionValue
    id        [2, "id", incarnation, offset, row, id key]               [log_ms]
    refused   [2, "refused", incarnation, offset, row, time, retried_at] []
    members   [2, "members", incarnation, writer, segment, part]        facts (pipeline/once/)
    filter    [2, "filter", incarnation, family, since, error, writer,
               number, part, parts]                                     keys added, or bits

A position record says what a shard is at an offset that is about to be committed. Recovery resumes
at such an offset with the record of exactly that offset, so that log time, rules and offset cannot
disagree.

Facts about members are many and never expire, so a record holds thousands of them. They say the
same whoever writes them, but a record holds other ones each time, so its key has the writer, too.

A sketch may be larger than a record, so it has parts. What it was before must stay until the new
one is whole: `through` is in its key, and older ones are forgotten after a commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pipeline.once.facts import KEY_BYTES
from pipeline.placing import slot_of
from pipeline.refused import NOT_RETRIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.cells import SlotCells
    from pipeline.ids import Occurrence
    from pipeline.once.filters import FilterSnapshot
    from pipeline.once.members import MembersSnapshot
    from pipeline.refused import RefusedFact
    from pipeline.shard import ShardSnapshot
    from pipeline.sketched import SketchOf, SketchSnapshot

FORMAT = 2
"""Of the records. What was counted in slots of another length would be counted again.

It stands for what values do not say of themselves, too: the hash that members and ids are known by,
and which bits a filter has for one (sketches/bloom.py).
"""

EPOCH = 2**32
"""A writer's number is its generation plus this, times how often the group began anew."""

CELL = "cell"
SKETCH = "sketch"
POSITION = "position"
ID = "id"
REFUSED = "refused"
MEMBERS = "members"
FILTER = "filter"

_PART_BYTES = 512 * 1024  # of a sketch in one record

FACTS_AT_ONCE = 16_384
"""How many facts about members a record holds."""

_encode = msgspec.msgpack.Encoder().encode
_NOTHING = _encode(())

SketchPlace = tuple[int, "SketchOf"]
"""A sketch's slot, and which one of it."""

ChangelogRecord = tuple[bytes, bytes | None]
"""Key and value; no value is a tombstone."""

CELL_VALUE = ("p", "n", "through", "first", "duplicates")
"""The fields of a cell's record."""


class PositionValue(msgspec.Struct, array_like=True):
    """A shard at an offset. Without a `last_batch` nothing was counted yet in this incarnation."""

    log_ms: int
    incarnation: int
    rules: bytes
    last_batch: tuple[int, int, int] | None
    ids_from: tuple[int, int] | None
    refused_from: tuple[int, int] | None
    replica: str
    counts_from_ms: int = 0
    open_entry: tuple[int, ...] | None = None
    once_since: dict[str, int] = {}
    once_filled: list[tuple[str, int, float, int]] = []


def position_key(offset: int, writer: int) -> bytes:
    """The key of the position record of an offset."""
    return _encode((FORMAT, POSITION, offset, writer))


def position_record(snapshot: ShardSnapshot, writer: int) -> ChangelogRecord:
    """What the shard is at its position, the next offset to count."""
    value = PositionValue(
        snapshot.log_ms,
        snapshot.incarnation,
        snapshot.rules.bytes,
        snapshot.last_batch,
        snapshot.ids_from,
        snapshot.refused_from,
        snapshot.shard.replica,
        snapshot.shard.counts_from_ms,
        snapshot.open_entry,
        snapshot.once_since,
        [(*name, filled) for name, filled in snapshot.once_filled.items()],
    )
    return position_key(snapshot.position, writer), _encode(value)


def cell_keys(
    cells: SlotCells, keys: Iterable[str], incarnation: int, writer: int
) -> Iterator[bytes]:
    """The changelog keys of a slot's cells."""
    slot_ms = cells.slot_ms
    return (_encode((FORMAT, CELL, incarnation, slot_ms, key, writer)) for key in keys)


def sketch_records(
    part: SketchSnapshot, incarnation: int, writer: int
) -> Iterator[tuple[SketchPlace, list[ChangelogRecord]]]:
    """The records of each sketch in a snapshot, with its place."""
    slot_ms = part.sketches.slot_ms
    for one in part.values:
        parts = [one.value[at : at + _PART_BYTES] for at in range(0, len(one.value), _PART_BYTES)]
        place = (FORMAT, SKETCH, incarnation, slot_ms, *one.of, one.through)
        yield (
            (slot_ms, one.of),
            [
                (_encode((*place, number, len(parts), writer)), _encode((one.first, value)))
                for number, value in enumerate(parts)
            ],
        )


def id_keys(occurrences: Iterable[Occurrence], incarnation: int) -> Iterator[bytes]:
    """The changelog keys of occurrences of ids."""
    return (
        _encode((FORMAT, ID, incarnation, one.offset, one.row, one.id_key)) for one in occurrences
    )


def refused_keys(facts: Iterable[RefusedFact], incarnation: int) -> Iterator[bytes]:
    """The changelog keys of facts about refused places."""
    return (_encode((FORMAT, REFUSED, incarnation, *fact)) for fact in facts)


def member_records(
    snapshot: MembersSnapshot, incarnation: int, writer: int, segment: int
) -> list[tuple[bytes, bytes]]:
    """The facts of a snapshot as a segment of the writer's, which has not written it before."""
    facts = snapshot.facts
    parts = range(0, len(facts), FACTS_AT_ONCE)
    return [
        (
            _encode((FORMAT, MEMBERS, incarnation, writer, segment, number)),
            facts[start : start + FACTS_AT_ONCE].tobytes(),
        )
        for number, start in enumerate(parts)
    ]


def filter_records(
    snapshot: FilterSnapshot, incarnation: int, writer: int
) -> list[tuple[bytes, bytes]]:
    """What was added to a filter since it was last saved, or the whole of it."""
    place = (FORMAT, FILTER, incarnation, *snapshot.name, writer)
    if snapshot.whole is not None:
        starts = range(0, max(len(snapshot.whole), 1), _PART_BYTES)
        return [
            (
                _encode((*place, snapshot.filled, number, len(starts))),
                snapshot.whole[start : start + _PART_BYTES],
            )
            for number, start in enumerate(starts)
        ]
    size = FACTS_AT_ONCE * KEY_BYTES
    return [
        (
            _encode((*place, snapshot.first + start // KEY_BYTES, 0, 0)),
            snapshot.added[start : start + size],
        )
        for start in range(0, len(snapshot.added), size)
    ]


def forgotten_keys(snapshot: ShardSnapshot) -> Iterator[bytes]:
    """The keys of ids and refused places that the shard does not remember any more."""
    yield from id_keys(snapshot.old_ids, snapshot.incarnation)
    for fact in snapshot.old_refused:
        yield from refused_keys((fact, fact._replace(retried_at=NOT_RETRIED)), snapshot.incarnation)


def checkpoint_records(
    snapshot: ShardSnapshot,
    writer: int,
    sketches: Iterable[ChangelogRecord] = (),
    members: Iterable[ChangelogRecord] = (),
) -> Iterator[ChangelogRecord]:
    """Everything a checkpoint writes: cells, `sketches`, `members`, ids, refused places, and the
    position last.

    Cells of slots that are over are left out: no later row can change them, and they are in
    ClickHouse before the position is committed, so nobody will ever want them back.
    """
    over = slot_of(snapshot.log_ms)
    for part in snapshot.checkpoint:
        if part.cells.slot_ms < over:
            continue
        values = part.values
        columns = zip(*(getattr(values, name).tolist() for name in CELL_VALUE), strict=True)
        keys = cell_keys(part.cells, values.keys, snapshot.incarnation, writer)
        yield from zip(keys, map(_encode, columns), strict=True)
    yield from sketches
    yield from members
    for key, one in zip(
        id_keys(snapshot.new_ids, snapshot.incarnation), snapshot.new_ids, strict=True
    ):
        yield key, _encode((one.log_ms,))
    for key in refused_keys(snapshot.new_refused, snapshot.incarnation):
        yield key, _NOTHING
    yield position_record(snapshot, writer)


def tombstones(keys: Iterable[bytes]) -> Iterator[ChangelogRecord]:
    """Records that let compaction forget `keys`."""
    return ((key, None) for key in keys)
