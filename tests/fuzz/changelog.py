"""Records of the table's changelog, and the shard that recovery makes of them.

An input is a MessagePack list of keys and values, one after the other: what is no bytes is encoded
as MessagePack first, so that inputs of the right form need no second encoding.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from pipeline.changelog import checkpoint_records
from pipeline.errors import OperatorError, TryAgainError
from pipeline.letters.remembered import ChangelogPlaces
from pipeline.recovery import RecoveredShard
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import BatchMark, Fetched, Row, Shard
from schemas.records import Records
from tests.kit.cells import cell_values

PROMISE = "a shard, or an error for the operator that tells the partition; never another exception"

_SLOT_MS = 1_760_000_400_000
_KEYS_MAX = 200
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()


def seeds() -> list[bytes]:
    shard = Shard(3, last_batch=BatchMark(0, 7, 0))
    shard.restore(_SLOT_MS, cell_values("29333340 2 eulikes:post-42", 5, 0, 3))
    rows = [
        Row(0, 0, "a:b", "", _SLOT_MS, 1, "id-1", "ada"),
        Row(1, 0, "a:c", "", _SLOT_MS, 1, None),
    ]
    shard.absorb_rows(rows, Fetched(np.arange(2), np.full(2, _SLOT_MS), 2, refused=[(0, 0)]))
    written = list(checkpoint_records(shard.snapshot(checkpoint=True), 1))
    plain = _encode([part for pair in written for part in map(_opened, pair)])
    return [plain, _encode(_once()), _encode(_sketch()), _encode([b"\x00", b"", [1, "cell"], None])]


def _once() -> list[object]:
    rules = CountingRules(1, FamilyRules(once_per_member=True, once_per_error=0.1)).bytes
    position = [0, 0, rules, None, [0, 0], [0, 0], "r", 0, None, {"a": 0}, [["a", 0, 0.1, 1]]]
    return [
        [2, "position", 9, 1], position,
        [2, "members", 0, 1, 0, 0], bytes(24),
        [2, "filter", 0, "a", 0, 0.1, 1, 0, 0, 0], bytes(16),
        [2, "id", 0, 1, 0, "x"], [5],
        [2, "refused", 0, 1, 0, 5, -1], [],
    ]  # fmt: skip


def _sketch() -> list[object]:
    position = [0, 0, CountingRules().bytes, None, None, None, "r"]
    return [
        [2, "position", 9, 1], position,
        [2, "sketch", 0, _SLOT_MS, "", "", None, 3, 0, 1, 1], [0, b"TSH\x01"],
    ]  # fmt: skip


def _opened(part: bytes | None) -> object:
    return None if part is None else _decoder.decode(part)


def check(data: bytes) -> None:
    try:
        parts = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        parts = [data[: len(data) // 2], data[len(data) // 2 :]]
    if not isinstance(parts, list):
        parts = [parts]
    parts = parts[:_KEYS_MAX]
    keys = [_closed(part) for part in parts[::2]]
    values = [None if part is None else _closed(part) for part in parts[1::2]]
    values += [None] * (len(keys) - len(values))
    for read in (_recover, _recall):
        try:
            read(keys, values)
        except (OperatorError, TryAgainError) as error:
            assert str(error)


def _closed(part: object) -> bytes:
    return part if isinstance(part, bytes) else _encode(part)


def _recall(keys: list[bytes], values: list[bytes | None]) -> None:
    """As `tally dead-letters --retry` does it: which refused places are remembered."""
    places = ChangelogPlaces()
    for key, value in zip(keys, values, strict=True):
        places.add(key, value)
    places.remembered(0, 100)


def _recover(keys: list[bytes], values: list[bytes | None]) -> None:
    """As a worker does it: where to go on, the shard there, and what may be forgotten."""
    size = len(keys)
    found = RecoveredShard(3)
    offsets = np.arange(size, dtype=np.int64)
    times = np.zeros(size, np.int64)
    found.add(0, size, Records(3, offsets, times, list(keys), values, [()] * size))
    position = found.position(None)
    found.writer(7)
    if position is None:
        return
    shard = found.resume(position)
    found.unneeded(found.writer(7), position)
    list(checkpoint_records(shard.snapshot(checkpoint=True), 7))
