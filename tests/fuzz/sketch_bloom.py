"""The bits of a member filter, and what is said of them: its error, and how many were added."""

from __future__ import annotations

import struct

import numpy as np

from pipeline.errors import BadInputError
from sketches.bloom import GrowingFilter

PROMISE = "a filter that is written and read again as the same, or BadInputError; never more memory"

_HEAD = struct.Struct("<dq")
_BYTES_PER_BYTE = 64


def seeds() -> list[bytes]:
    found = GrowingFilter(0.1)
    found.add(np.arange(9, dtype=np.uint64), np.arange(9, dtype=np.uint64))
    bits = found.to_bytes()
    return [
        _HEAD.pack(0.1, 9) + bits,
        _HEAD.pack(0.1, 0),
        _HEAD.pack(0.1, 10**15) + bits,
        _HEAD.pack(0.1, -1) + bits,
        _HEAD.pack(float("nan"), 9) + bits,
        _HEAD.pack(0.0, 9) + bits,
        _HEAD.pack(2.0, 4097) + bits,
    ]


def check(data: bytes) -> None:
    error, filled = _HEAD.unpack_from(data.ljust(_HEAD.size, b"\0"))
    bits = data[_HEAD.size :]
    try:
        found = GrowingFilter.from_bytes(error, filled, bits)
    except BadInputError as refusal:
        assert str(refusal)
        return
    assert found.to_bytes() == bits
    assert found.filled == filled
    halves = np.arange(3, dtype=np.uint64)
    found.add(halves, halves)
    assert not found.add(halves, halves).any(), "whoever is in is always found"
