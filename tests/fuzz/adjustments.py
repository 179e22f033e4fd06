"""The value of an adjustment record, as the log has it."""

from __future__ import annotations

from pipeline.errors import BadInputError
from schemas.adjustments import ADJUSTMENT_REASON, read_adjustment

PROMISE = "an adjustment that is written and read again as the same, or a short reason"

REASON_CHARS_MAX = 2_000


def seeds() -> list[bytes]:
    rest = b'"who":"ada","why":"a test","id":"1","at":1790000000000}'
    return [
        b'{"counter":"a:b","by":-5,' + rest,
        b'{"counter":"a:b","by":1.0,"before":1,"after":2,"region":"eu",' + rest,
        b'{"counter":"a:b","by":9223372036854775807,"grain":"1h","window":1790002800000,' + rest,
        b'{"counter":"a:b","by":1,"grain":"1m",' + rest,
        b'{"counter":"a:b","by":0,"' + b"x" * 5000 + b'":1,' + rest,
        b'{"counter":"a:b","by":1,"at":"2026-11-16T04:06:36Z","grain":{},"why":" "}',
        b"[]",
        b"[" * 3000,
    ]


def check(data: bytes) -> None:
    try:
        adjustment = read_adjustment(data)
    except BadInputError as error:
        reason = str(error)
        assert reason.startswith(ADJUSTMENT_REASON)
        assert len(reason) <= REASON_CHARS_MAX
        return
    again = read_adjustment(adjustment.bytes())
    assert again == adjustment
    assert again.bytes() == adjustment.bytes()
    assert -(2**63) <= adjustment.by < 2**63
    assert adjustment.by != 0
