"""The bytes of a frequency sketch (Count-Min)."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from pipeline.errors import BadInputError
from sketches.frequency import Frequency
from tests.fuzz.sealed import sealed, seed_of

PROMISE = "a sketch that is written and read again as the same and can be used, or BadInputError"

_HEAD = struct.Struct("<BIqQQB")


def seeds() -> list[bytes]:
    few = Frequency(2, 8)
    few.add_many(["a", "b"], [5, -2], [1, 2])
    merged = Frequency(3, 4)
    merged.merge(Frequency(3, 4))
    bomb = _HEAD.pack(32, 1 << 24, -1, 0, 0, 0) + zlib.compress(bytes(1 << 22))
    return [*(seed_of(one.to_bytes()) for one in (few, merged)), few.to_bytes(), b"\0" + bomb]


def check(data: bytes) -> None:
    written = sealed(b"F", data)
    try:
        sketch = Frequency.from_bytes(written)
    except BadInputError as error:
        assert str(error)
        return
    again = Frequency.from_bytes(sketch.to_bytes())
    assert all(map(np.array_equal, again.counters(), sketch.counters()))
    assert (again.added, again.removed, again.through) == (
        sketch.added,
        sketch.removed,
        sketch.through,
    )
    found = sketch.estimate("a")
    assert found.low <= found.value <= found.high
    try:
        sketch.add_many(["a"], [1])
    except BadInputError:
        assert sketch.added >= 2**63 - 1
