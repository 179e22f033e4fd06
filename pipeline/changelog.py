"""What the table's changelog holds, and how a shard is recovered from it. Pure.

The changelog is compacted, so the last write of a key wins, and a woken zombie may write last.
Every key therefore ends with the generation of the group in which its writer owned the partition: a
zombie overwrites its own records only, and recovery takes the greatest `through` over generations.

Two kinds of record, in MessagePack, each beginning with the format's version:

    cell      key [1, "cell", slot_ms, cell key, generation]   value [p, n, through]
    position  key [1, "position", offset, generation]          value [log_ms]

A position record says what log time was at an offset that is about to be committed. Recovery
resumes at the committed offset with the position record of exactly that offset, so that log time
and offset cannot disagree.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pipeline.cells import CellValues
from pipeline.errors import OperatorError, TryAgainError
from pipeline.shard import Rules, Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.cells import SlotSnapshot
    from schemas.records import Records

FORMAT = 1
_CELL = "cell"
_POSITION = "position"

_encode = msgspec.msgpack.Encoder().encode
_decode: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()

ChangelogRecord = tuple[bytes, bytes | None]
"""Key and value; no value is a tombstone."""


def position_key(offset: int, generation: int) -> bytes:
    """The key of the position record of an offset."""
    return _encode((FORMAT, _POSITION, offset, generation))


def position_record(offset: int, log_ms: int, generation: int) -> ChangelogRecord:
    """What log time is at `offset`, the next offset to count."""
    return position_key(offset, generation), _encode((log_ms,))


def cell_keys(slot_ms: int, keys: Iterable[str], generation: int) -> Iterator[bytes]:
    """The changelog keys of a slot's cells."""
    return (_encode((FORMAT, _CELL, slot_ms, key, generation)) for key in keys)


def cell_records(part: SlotSnapshot, generation: int) -> Iterator[ChangelogRecord]:
    """The records of a snapshot's dirty cells."""
    values = part.values
    columns = zip(values.p.tolist(), values.n.tolist(), values.through.tolist(), strict=True)
    keys = cell_keys(part.cells.slot_ms, values.keys, generation)
    return zip(keys, map(_encode, columns), strict=True)


def tombstones(keys: Iterable[bytes]) -> Iterator[ChangelogRecord]:
    """Records that let compaction forget `keys`."""
    return ((key, None) for key in keys)


@dataclass(slots=True)
class RecoveredShard:
    """Gathers one partition's changelog records in log order, then makes its shard of them."""

    partition: int
    _records: dict[bytes, bytes] = field(default_factory=dict)
    _next_offset: int | None = None

    def add(self, start: int, next_offset: int, records: Records) -> None:
        """Take what the changelog holds from `start` up to `next_offset`; tombstones forget.

        Raises TryAgainError when this does not follow on what was taken before: a part of the
        changelog would be missing.
        """
        if self._next_offset not in {None, start}:
            raise TryAgainError(
                f"the changelog of partition {self.partition} was read with a gap: expected offset "
                f"{self._next_offset}, got {start}; recovery begins again"
            )
        self._next_offset = next_offset
        for key, value in zip(records.keys, records.values, strict=True):
            if key is None:
                raise OperatorError(
                    f"the changelog of partition {self.partition} holds a record without a key, "
                    "which Tally never writes; check who else writes to that topic"
                )
            if value is None:
                self._records.pop(key, None)
            else:
                self._records[key] = value

    def begin(self, start: int, rules: Rules) -> Shard:
        """The shard of a partition that was never committed, counting from `start`.

        A position record alone may be there: it is written before the first commit. Raises
        OperatorError when there are cells, for then an offset was committed and is lost.
        """
        if any(self._decode_key(key)[0] == _CELL for key in self._records):
            raise OperatorError(
                f"partition {self.partition} has counted cells but no committed offset: counting "
                "from the log's start would count twice; rebuild with `tally replay`"
            )
        return Shard(self.partition, start, rules=rules)

    def resume(self, committed: int, rules: Rules) -> Shard:
        """The shard as of the `committed` offset.

        Raises OperatorError when the changelog has no position record for exactly that offset.
        """
        log_times: list[int] = []
        slots: dict[int, dict[str, tuple[int, int, int]]] = defaultdict(dict)
        for key, value in self._records.items():
            kind, *rest = self._decode_key(key)
            if kind == _POSITION:
                if rest[0] == committed:
                    log_times.append(_decode.decode(value)[0])
            else:
                slot_ms, cell, _generation = rest
                p, n, through = _decode.decode(value)
                known = slots[slot_ms].get(cell)
                if known is None or through > known[2]:
                    slots[slot_ms][cell] = (p, n, through)
        if not log_times:
            raise OperatorError(
                f"partition {self.partition} is committed at offset {committed}, for which its "
                "changelog has no position record; restart the worker, and if this stays, rebuild "
                "with `tally replay`"
            )
        shard = Shard(self.partition, committed, max(log_times), rules)
        for slot_ms, cells in slots.items():
            columns = np.array(list(cells.values()), np.int64).T
            shard.restore(slot_ms, CellValues(list(cells), *columns.copy()))
        return shard

    def keys_of_others(self, generation: int) -> list[bytes]:
        """The keys other generations wrote: unneeded once a commit of this one is confirmed."""
        return [key for key in self._records if self._decode_key(key)[-1] != generation]

    def _decode_key(self, key: bytes) -> list[Any]:
        version, *rest = _decode.decode(key)
        fields: list[Any] = rest
        if version != FORMAT:
            raise OperatorError(
                f"the changelog of partition {self.partition} has format {version}, this Tally "
                f"reads {FORMAT}; run the version that wrote it"
            )
        return fields
