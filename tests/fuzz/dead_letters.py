"""Dead letters as their topic has them, read back for a retry or to put a row into its table, and
those that somebody mended, in a file.

An input is a MessagePack list: a letter's value, then names and values of its headers, one after
the other.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from pipeline.dead_letters import DeadLetter
from pipeline.errors import BadInputError, OperatorError
from pipeline.letters.edited import read_edited
from pipeline.letters.letter import LetterKey, read_letter
from pipeline.letters.retry import Attempt, still_refused
from pipeline.letters.row_table import _TYPES
from pipeline.letters.rows import CELLS, SummedRow, read_row
from schemas.records import Headers

PROMISE = "a letter, a row that its table's columns hold, a mended event; or none, or a reason"

_LOG_MS = 1_790_000_000_000
_LISTED = LetterKey(3, 8, 0, _LOG_MS)
"""Only letters that ClickHouse lists are sent again, so places are its own."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()


def seeds() -> list[bytes]:
    event = b'{"counter":"a:b","delta":0}'
    letter = DeadLetter(3, 8, 0, _LOG_MS, "delta: 0 changes nothing", event, len(event))
    frame = DeadLetter(3, 9, 1, _LOG_MS, "no frame", b"\xff\xff\xff\xff", 4, is_frame=True)
    when = b'"2026-10-11 07:00:00"'
    cell = (
        b'{"build":1,"counter":"a:b","region":"","window":%s,"slot":%s,"replica":"r",'
        b'"shard":3,"p":5,"n":0,"duplicates":0,"through":-1}' % (when, when)
    )
    bucket = cell.replace(b'"counter":"a:b"', b'"family":"a","width":4,"bucket":3')
    registers = (
        b'{"table":"tally.distinct_1m","build":1,"counter":"a:b","region":"","window":%s,'
        b'"precision":12,"slot_day":"2026-10-11","registers":[[65535,255],[0,1]]}' % when
    )
    heaviest = (
        b'{"table":"tally.heavy_1m","build":1,"slot":%s,"replica":"r","shard":3,"family":"a",'
        b'"region":"","through":9,"counters":["a:b"],"counts":[5],"lost":0}' % when
    )
    adjustment = (
        b'{"table":"tally.adjustments","build":1,"counter":"a:b","id":"1","region":"","grain":"",'
        b'"window":%s,"by":-5,"who":"ada","why":"x","before":null,"after":7,'
        b'"at":"0001-01-01 00:00:00.5","log_time":%s,"shard":3,"offset":9}' % (when, when)
    )
    edited = (
        b'{"place":"3/17/0","event":{"counter":"a:b","at":NaN}}\n\n{"place":"3/18/0","event":1}'
    )
    newer = [edited, "tally-format", b"2"]
    return [
        *(_encode([one.value, *_parts(one)]) for one in (letter, frame)),
        *(_encode([row]) for row in (cell, registers, heaviest, adjustment)),
        _encode([bucket[:-1] + b',"table":"tally.frequency_1m"}']),
        _encode([edited]),
        _encode(newer),
        _encode([b'{"place":"1/1/1","event":' + b"[" * 3000, "tally-bytes", b"1_0", "x", None]),
    ]


def _parts(letter: DeadLetter) -> list[object]:
    return [part for header in letter.headers() for part in header]


def check(data: bytes) -> None:
    value, headers = _message(data)
    try:
        letter = read_letter(value, headers)
    except OperatorError as error:
        assert "newer Tally" in str(error)
    else:
        if letter is not None:
            assert letter.value == value
            attempt = Attempt(_LISTED, letter.value, letter.content_type)
            assert all(still_refused([attempt]).values())
    _put_back(value)
    try:
        for place, event in read_edited(value.split(b"\n")).items():
            still_refused([Attempt(_LISTED, event)])
            assert place.count("/") == 2
    except BadInputError as error:
        assert str(error).startswith("line ")


def _put_back(value: bytes) -> None:
    """As it would be written to its table."""
    row = read_row(value)
    if row is None:
        return
    for name in row.__struct_fields__:
        if name in _TYPES:
            pa.array([getattr(row, name)], _TYPES[name]).validate(full=True)
    assert row.log_ms < 2**62
    if isinstance(row, SummedRow):
        assert row.id.slot_s * 1000 <= row.log_ms
        assert [row.sum_key(grain).shard for grain in ("1h", "1d", "life")] == [row.shard] * 3
    assert row.table.startswith(CELLS.split(".")[0])


def _message(data: bytes) -> tuple[bytes, Headers]:
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = [data]
    parts: list[object] = [*(found if isinstance(found, list) else [found]), b""]
    value, rest = parts[0], parts[1:]
    names = [one if isinstance(one, str) else repr(one) for one in rest[::2]]
    return _bytes(value), tuple(zip(names, map(_bytes, rest[1::2]), strict=False))


def _bytes(part: object) -> bytes:
    return part if isinstance(part, bytes) else str(part).encode("utf-8", "replace")
