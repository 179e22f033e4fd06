"""How a shard is recovered from its changelog. Pure.

A position record says what a shard is at an offset that is about to be committed. Recovery resumes
at such an offset with the record of exactly that offset, so that log time, rules and offset cannot
disagree.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, cast

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.cells import CellValues
from pipeline.changelog import (
    CELL,
    CELL_VALUE,
    EPOCH,
    FILTER,
    FORMAT,
    ID,
    MEMBERS,
    POSITION,
    REFUSED,
    SKETCH,
    PositionValue,
)
from pipeline.errors import BadInputError, OperatorError, ShardRefusedError, TryAgainError
from pipeline.ids import Occurrence, SeenIds
from pipeline.ledger import Ledger
from pipeline.once import members
from pipeline.once.filters import FilterName, FilterPart, MemberFilter, recovered_filter
from pipeline.refused import WHOLE_RECORD, RefusedFact, RefusedPlaces, facts_at
from pipeline.rules import parse_rules
from pipeline.shard import BatchMark, Shard
from pipeline.sketched import SketchBytes, SketchOf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.ids import Place
    from schemas.records import Records

_decode: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()
_decode_position = msgspec.msgpack.Decoder(PositionValue).decode

_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_KEYS: dict[str, msgspec.msgpack.Decoder[Any]] = {
    CELL: msgspec.msgpack.Decoder(tuple[int, str, _Int, _Int, str, _Int]),
    SKETCH: msgspec.msgpack.Decoder(
        tuple[int, str, _Int, _Int, str, str, _Int | None, _Int, _Int, _Int, _Int]
    ),
    POSITION: msgspec.msgpack.Decoder(tuple[int, str, _Int, _Int]),
    ID: msgspec.msgpack.Decoder(tuple[int, str, _Int, _Int, _Int, str]),
    REFUSED: msgspec.msgpack.Decoder(tuple[int, str, _Int, _Int, _Int, _Int, _Int]),
    MEMBERS: msgspec.msgpack.Decoder(tuple[int, str, _Int, _Int, _Int, _Int]),
    FILTER: msgspec.msgpack.Decoder(
        tuple[int, str, _Int, str, _Int, float, _Int, _Int, _Int, _Int]
    ),
}
"""What is after the kind in a key, as pipeline/changelog.py has it."""

_KEY_START = slice(1, 5)
_KEY_OF_START = {
    msgspec.msgpack.encode((FORMAT, kind))[_KEY_START]: decoder.decode
    for kind, decoder in _KEYS.items()
}
"""The decoder of a key by its first bytes, which have the format and the kind."""

assert len(_KEY_OF_START) == len(_KEYS)

_decode_cell = msgspec.msgpack.Decoder(tuple[_Int, _Int, _Int, _Int, _Int]).decode
_decode_sketch = msgspec.msgpack.Decoder(tuple[_Int, bytes]).decode
_decode_id = msgspec.msgpack.Decoder(tuple[_Int]).decode
_NEVER_WRITTEN = (
    BadInputError,
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    pa.ArrowException,
)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

CellFields = tuple[int, int, str, int, int, int, int, int, int]
"""Incarnation, slot_ms, cell key, writer, and CELL_VALUE."""

IdFields = tuple[int, int, int, str, int, bytes]
"""Incarnation, offset, row, id key, log_ms, and the key in the changelog."""

SketchFields = tuple[int, int, str, str, int | None, int, int, int, int, int, bytes]
"""Incarnation, slot_ms, group, region, window_ms, through, part, parts, writer, first, bytes."""

RefusedFields = tuple[int, RefusedFact, bytes]
"""Incarnation, fact, and the key in the changelog."""

MemberFields = tuple[int, int, int, int, bytes, bytes]
"""Incarnation, writer, segment, part, the key in the changelog, and the facts."""


class _Parsed(NamedTuple):
    """The records of a changelog by kind; a position has its offset and writer before it."""

    cells: list[CellFields]
    ids: list[IdFields]
    refused: list[RefusedFields]
    sketches: list[SketchFields]
    positions: list[tuple[int, int, PositionValue]]
    written: list[tuple[int, bytes]]
    """The writer and the key of every cell and position."""
    members: list[MemberFields]
    filters: list[tuple[int, FilterPart]]
    """With their incarnations."""


@dataclass(slots=True)
class RecoveredShard:
    """Gathers one partition's changelog records in log order, then makes its shard of them."""

    partition: int
    first_offset: int | None = None
    next_offset: int | None = None
    _records: dict[bytes, bytes | None] = field(default_factory=dict)
    _known: _Parsed | None = None

    def add(self, start: int, next_offset: int, records: Records) -> None:
        """Take what the changelog holds from `start` up to `next_offset`; tombstones forget.

        Raises TryAgainError when this does not follow on what was taken before: a part of the
        changelog would be missing.
        """
        if self.next_offset not in {None, start}:
            raise TryAgainError(
                f"the changelog of partition {self.partition} was read with a gap: expected offset "
                f"{self.next_offset}, got {start}; recovery begins again"
            )
        if self.first_offset is None:
            self.first_offset = start
        self.next_offset = next_offset
        if None in records.keys:
            raise OperatorError(
                f"the changelog of partition {self.partition} holds a record without a key, "
                "which Tally never writes; check who else writes to that topic"
            )
        keys = cast("list[bytes]", records.keys)
        self._records.update(zip(keys, records.values, strict=True))
        self._known = None

    def position(self, committed: int | None) -> int | None:
        """Where to go on: the newest writer's last position, at or after the committed one.

        A position's cells and ids are written before it, so its shard is complete, committed or
        not. Going by the changelog, a committed offset that was lost, or that went back, costs
        nothing. A zombie may write a position further on; but the cells it belongs to are forgotten
        once a newer writer has committed, so that one goes first. None if there is no position.
        """
        known = [
            (value.incarnation, writer, offset)
            for offset, writer, value in self._parsed().positions
            if committed is None or offset >= committed
        ]
        return max(known)[2] if known else None

    def resume(self, position: int) -> Shard:
        """The shard at a `position` that the changelog knows.

        Raises OperatorError when the changelog has something that Tally never writes.
        """
        try:
            return self._resumed(position)
        except _NEVER_WRITTEN as error:
            raise self._foreign(error) from error

    def _resumed(self, position: int) -> Shard:
        found, here = self._parsed(), self._at(position)
        shard = Shard(
            self.partition,
            position,
            here.log_ms,
            here.incarnation,
            parse_rules(here.rules),
            None if here.last_batch is None else BatchMark(*here.last_batch),
            SeenIds(_occurrences(found.ids, here, position)),
            RefusedPlaces(_facts(found.refused, here, position)),
        )
        shard.replica = here.replica
        shard.counts_from_ms = here.counts_from_ms
        shard.ledger = Ledger(here.open_entry)
        filters = [one for incarnation, one in found.filters if incarnation == here.incarnation]
        shard.members = _members(found.members, here, position, self._filters(filters, here))
        for slot_ms, values in _greatest(found.cells, here.incarnation):
            shard.restore(slot_ms, values)
        for slot_ms, sketch in _whole_sketches(found.sketches, here.incarnation):
            shard.restore_sketch(slot_ms, sketch)
        return shard

    def refuse(self, committed: int | None) -> NoReturn:
        """There is no position to go on at."""
        raise ShardRefusedError(
            self.partition,
            f"it is committed at offset {committed}, for which its changelog has no position "
            "record; if this stays after a restart, rebuild with `tally replay`",
        )

    def is_new(self) -> bool:
        """True if the changelog holds nothing at all."""
        return not any(value is not None for value in self._records.values())

    def writer(self, generation: int) -> int:
        """The number under which an owner of this generation writes: greater than all before it.

        A group that was deleted, or that expired, counts its generations from 1 again. Then a new
        epoch begins, so that what it writes goes before what zombies of the old group still write.
        """
        found = self._parsed()
        writers = chain(
            map(itemgetter(0), found.written),
            map(itemgetter(1), found.members),
            (one.writer for _, one in found.filters),
        )
        epoch, last = divmod(max(writers, default=0), EPOCH)
        return (epoch if generation > last else epoch + 1) * EPOCH + generation

    def unneeded(self, writer: int, position: int) -> list[bytes]:
        """What nobody needs after the first commit of this writer, which resumed at `position`.

        Others' cells and positions, because it has written its own; ids and refused places of older
        incarnations, and those that were forgotten at the position, whose tombstones were lost;
        members of older incarnations, whose facts the first position of this one brought along. Not
        those at or past it: an owner that was ahead wrote them, this one writes them again under
        the same keys, and then they are needed.
        """
        found = self._parsed()
        keys = [key for other, key in found.written if other != writer]
        if not self.is_new():
            here, end = self._at(position), (position, WHOLE_RECORD)
            ids = ((one[0], one[1:3], one[-1]) for one in found.ids)
            keys += _forgotten(ids, here.ids_from or end, here.incarnation)
            refused = ((one[0], one[1][:2], one[-1]) for one in found.refused)
            keys += _forgotten(refused, here.refused_from or end, here.incarnation)
            keys += [one[4] for one in found.members if one[0] < here.incarnation]
            names = {FilterName(*one[:3]) for one in here.once_filled}
            keys += [
                one.key
                for incarnation, one in found.filters
                if incarnation < here.incarnation or one.name not in names
            ]
        return keys

    def _at(self, position: int) -> PositionValue:
        """The newest writer's record of a position that the changelog knows."""
        known = (
            (value.incarnation, writer, value)
            for offset, writer, value in self._parsed().positions
            if offset == position
        )
        return max(known, key=itemgetter(0, 1))[2]

    def _parsed(self) -> _Parsed:
        """All records by kind, read once. Tombstones are left out."""
        if self._known is None:
            self._known = _Parsed([], [], [], [], [], [], [], [])
            for key, value in self._records.items():
                if value is not None:
                    self._sort(self._known, key, value)
        return self._known

    def _sort(self, known: _Parsed, key: bytes, value: bytes) -> None:
        try:
            self._sort_typed(known, key, value)
        except _UNREADABLE as error:
            raise self._foreign(error) from error

    def _sort_typed(self, known: _Parsed, key: bytes, value: bytes) -> None:
        _, kind, *rest = _KEY_OF_START.get(key[_KEY_START], self._decode_foreign_key)(key)
        if kind == ID:
            known.ids.append((*rest, *_decode_id(value), key))
            return
        if kind == REFUSED:
            known.refused.append((rest[0], RefusedFact(*rest[1:]), key))
            return
        if kind == MEMBERS:
            known.members.append((*rest, key, value))
            return
        if kind == FILTER:
            incarnation, family, since, error, *place = rest
            name = FilterName(family, since, error)
            known.filters.append((incarnation, FilterPart._make((name, *place, key, value))))
            return
        if kind == CELL:
            known.cells.append((*rest, *_decode_cell(value)))
        elif kind == SKETCH:
            known.sketches.append((*rest, *_decode_sketch(value)))
        elif kind == POSITION:
            known.positions.append((*rest, _decode_position(value)))
        else:
            raise self._foreign(f"a key of the kind {kind[:20]}")
        known.written.append((rest[-1], key))

    def _filters(self, parts: list[FilterPart], here: PositionValue) -> Iterator[MemberFilter]:
        """The filters as they were at a position."""
        for family, since, error, filled in here.once_filled:
            name = FilterName(family, since, error)
            found = recovered_filter(name, filled, (one for one in parts if one.name == name))
            if found is None:
                raise ShardRefusedError(
                    self.partition,
                    f"its changelog lacks members of the family {name.family!r}; if this stays "
                    "after a restart, rebuild with `tally replay`",
                )
            yield found

    def _decode_foreign_key(self, key: bytes) -> NoReturn:
        """Tells what a key is that this Tally does not write."""
        fields = _decode.decode(key)
        version = fields[0] if isinstance(fields, list) and fields else None
        if isinstance(version, int) and version != FORMAT:
            raise OperatorError(
                f"the changelog of partition {self.partition} has format {version}, this Tally "
                f"reads {FORMAT}; run the version that wrote it"
            )
        raise self._foreign("a key of no kind that there is")

    def _foreign(self, what: object) -> OperatorError:
        return OperatorError(
            f"the changelog of partition {self.partition} holds a record that Tally never writes "
            f"({str(what)[:200]!r}); check who else writes to that topic, and rebuild with "
            "`tally replay`"
        )


def _greatest(cells: list[CellFields], incarnation: int) -> Iterator[tuple[int, CellValues]]:
    """The cells of an incarnation by slot, each with the greatest `through` of any writer."""
    slots: dict[int, list[CellFields]] = defaultdict(list)
    for cell in cells:
        if cell[0] == incarnation:
            slots[cell[1]].append(cell)
    for slot_ms, found in slots.items():
        found.sort(key=itemgetter(6))
        # Of equal keys a dictionary keeps the last, which is the one with the greatest `through`.
        unique = dict(zip(map(itemgetter(2), found), found, strict=True))
        numbers = chain.from_iterable(map(itemgetter(slice(4, None)), unique.values()))
        columns = np.fromiter(numbers, np.int64).reshape(-1, len(CELL_VALUE))
        yield slot_ms, CellValues(list(unique), *columns.T.copy())


def _whole_sketches(
    sketches: list[SketchFields], incarnation: int
) -> Iterator[tuple[int, SketchBytes]]:
    """Every sketch of an incarnation, as any writer wrote it, of which all parts are there."""
    parts: dict[tuple[Any, ...], dict[int, tuple[int, bytes]]] = defaultdict(dict)
    for found in sketches:
        if found[0] == incarnation:
            parts[*found[1:6], *found[7:9]][found[6]] = found[9:]
    for (slot_ms, group, region, window_ms, through, count, _), by_number in parts.items():
        if len(by_number) == count and 0 in by_number:
            first = by_number[0][0]
            value = b"".join(by_number[number][1] for number in sorted(by_number))
            yield slot_ms, SketchBytes(SketchOf(group, region, window_ms), first, through, value)


def _forgotten(
    placed: Iterable[tuple[int, Place, bytes]], first: Place, incarnation: int
) -> Iterator[bytes]:
    """The keys of what is of an older incarnation, or before the first place that is remembered."""
    return (key for of, place, key in placed if (of, place) < (incarnation, first))


def _facts(
    refused: list[RefusedFields], position: PositionValue, committed: int
) -> Iterable[RefusedFact]:
    """What was known of refused places at the committed offset."""
    ours = (fact for incarnation, fact, _ in refused if incarnation == position.incarnation)
    return facts_at(ours, position.refused_from, committed)


def _members(
    found: list[MemberFields],
    position: PositionValue,
    committed: int,
    filters: Iterable[MemberFilter],
) -> members.Members:
    """Who was in at the committed offset."""
    ours = sorted(one for one in found if one[0] == position.incarnation)
    parts = ((one[1:3], *one[4:]) for one in ours)
    return members.recovered(parts, committed, position.once_since, filters)


def _occurrences(ids: list[IdFields], position: PositionValue, committed: int) -> list[Occurrence]:
    """The ids that were remembered at the committed offset, in log order.

    Those at or past it were written by an owner that was ahead; those before `ids_from` were
    forgotten, though perhaps not yet in the changelog.
    """
    if position.ids_from is None:
        return []
    return sorted(
        (
            Occurrence(id_key, offset, row, log_ms)
            for incarnation, offset, row, id_key, log_ms, _ in ids
            if incarnation == position.incarnation
            and position.ids_from <= (offset, row)
            and offset < committed
        ),
        key=lambda one: (one.offset, one.row),
    )
