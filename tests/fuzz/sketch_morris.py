"""The bytes of Morris counters."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from pipeline.errors import BadInputError
from sketches.morris import Morris
from tests.fuzz.sealed import sealed, seed_of

PROMISE = "counters that are written and read again as the same and can be used, or BadInputError"


def seeds() -> list[bytes]:
    small, wide = Morris(0.25, 5), Morris(0.1, 3)
    small.add_many([0, 1, 1], partition=0, offsets=[0, 1, 2])
    wide.add_many([2], [10**6], partition=0, offsets=[5])
    bomb = struct.pack("<dQq", 0.25, 1 << 32, -1) + zlib.compress(bytes(1 << 22))
    # Found: a level of two bytes beyond those that this error has.
    high = struct.pack("<dQq", 0.2, 1, 5) + zlib.compress(b"\xff\xff")
    whole = [seed_of(one.to_bytes()) for one in (small, wide)]
    return [*whole, small.to_bytes(), b"\0" + bomb, b"\0" + high]


def check(data: bytes) -> None:
    written = sealed(b"M", data)
    try:
        counters = Morris.from_bytes(written)
    except BadInputError as error:
        assert str(error)
        return
    again = Morris.from_bytes(counters.to_bytes())
    assert np.array_equal(again.levels(), counters.levels())
    assert (again.error, again.through) == (counters.error, counters.through)
    counters.estimates()
    if len(counters) and counters.through is not None and counters.through < 2**63 - 1:
        found = counters.estimate(0)
        assert found.low <= found.value <= found.high
        counters.add_many([0], partition=0, offsets=[counters.through + 1])
