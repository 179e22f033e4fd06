"""Records of any kind in one fetch, counted by a shard: rules, adjustments, heartbeats, flushes,
retries, and what nobody has heard of.

An input is a MessagePack list of records, each [kind, key, value, retry, at], what is missing being
nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from pipeline.absorb import absorb
from pipeline.fetches import Fetch
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import BatchMark, Shard
from schemas.records import Headers, Records
from tests.fuzz import adjustments, rules_records

PROMISE = "every record is counted, understood, or a dead letter with a reason; never an exception"

_LOG_MS = 1_790_000_000_000
_RECORDS_MAX = 200
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()


def seeds() -> list[bytes]:
    event = b'{"counter":"a:b","id":"1","member":"ada"}'
    rules = [["rules", None, value] for value in rules_records.seeds()]
    adjusting = [["adjustment", b"a:b", value] for value in adjustments.seeds()]
    strict = CountingRules(5, FamilyRules(cells_max=1, once_per_member=True)).bytes
    return [
        _encode([["", None, event], ["heartbeat", None, b""], ["flush", None, None]]),
        _encode([[b"\xff", None, event], ["", None, None], ["x" * 300, b"", b""]]),
        _encode([["", None, b"{}"], ["", None, event, b"0/0/1790000000000"], ["", b"", b"", b"x"]]),
        _encode([*rules, ["", None, event]]),
        _encode([*adjusting, ["", None, event]]),
        _encode([["rules", None, strict], *([["", None, event]] * 5)]),
    ]


def check(data: bytes) -> None:
    records = _records(data)
    shard = Shard(0)
    position = len(records.values)
    mark = BatchMark(0, 0, 0)
    found = absorb(shard, Fetch(0, position, records, mark, mark, len(data), is_newest=True))
    assert shard.position == position
    assert all(letter.reason for letter in found.dead_letters)
    assert found.rows + len(found.dead_letters) <= position + len(found.dead_letters)
    again = Shard(0)
    absorb(again, Fetch(0, position, records, mark, mark, len(data), is_newest=True))
    assert _cells(again) == _cells(shard), "the log alone decides"


def _cells(shard: Shard) -> list[tuple[object, ...]]:
    return [
        (slot_ms, tuple(cells.values().keys), cells.values().p.tolist(), cells.values().n.tolist())
        for slot_ms, cells in sorted(shard.slots.items())
    ]


def _records(data: bytes) -> Records:
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = [["", None, data]]
    rows = [_row(one) for one in (found if isinstance(found, list) else [found])[:_RECORDS_MAX]]
    size = len(rows)
    return Records(
        0,
        np.arange(size, dtype=np.int64),
        np.array([_LOG_MS + row[3] for row in rows], np.int64),
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
    )


def _row(one: object) -> tuple[bytes | None, bytes | None, Headers, int]:
    fields = [*(one if isinstance(one, list) else [one]), None, None, None, None, None]
    headers: list[tuple[str, bytes]] = []
    if kind := _bytes(fields[0]):
        headers.append(("tally-kind", kind))
    if (retry := _bytes(fields[3])) is not None:
        headers.append(("tally-retry", retry))
    passed = fields[4] if isinstance(fields[4], int) and abs(fields[4]) < 10**12 else 0
    return _bytes(fields[1]), _bytes(fields[2]), tuple(headers), passed


def _bytes(field: object) -> bytes | None:
    if field is None or isinstance(field, bytes):
        return field
    return field.encode() if isinstance(field, str) else repr(field).encode()
