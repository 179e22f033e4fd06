"""The bytes of a distinct sketch."""

from __future__ import annotations

from pipeline.errors import BadInputError
from sketches.distinct import Distinct
from tests.fuzz.sealed import sealed, seed_of

PROMISE = "a sketch that is written and read again as the same and can be used, or BadInputError"


def seeds() -> list[bytes]:
    few, many = Distinct(12), Distinct(4)
    few.add_many(["ada", "bob"])
    many.add_many([str(number) for number in range(100)])
    return [seed_of(one.to_bytes()) for one in (few, many, Distinct(16))] + [few.to_bytes()]


def check(data: bytes) -> None:
    written = sealed(b"D", data)
    try:
        sketch = Distinct.from_bytes(written)
    except BadInputError as error:
        assert str(error)
        return
    assert sketch.to_bytes() == written
    value, low, high = sketch.uniques()
    assert low <= value <= high
    before = sketch.copy()
    sketch.add_many(["ada"])
    sketch.merge(before)
    assert Distinct.from_bytes(sketch.to_bytes()) == sketch
