"""The bytes of a heavy sketch (Misra-Gries)."""

from __future__ import annotations

from pipeline.errors import BadInputError
from sketches.heavy import Heavy
from tests.fuzz.sealed import sealed, seed_of

PROMISE = "a sketch that is written and read again as the same and can be used, or BadInputError"


def seeds() -> list[bytes]:
    few, folded = Heavy(4), Heavy(2)
    few.add_many(["a", "b", "é"], [5, -2, 7], [1, 2, 3])
    folded.add_many([f"key-{number % 5}" for number in range(8192)])
    return [seed_of(one.to_bytes()) for one in (few, folded, Heavy(1))] + [few.to_bytes()]


def check(data: bytes) -> None:
    written = sealed(b"H", data)
    try:
        sketch = Heavy.from_bytes(written)
    except BadInputError as error:
        assert str(error)
        return
    again = Heavy.from_bytes(sketch.to_bytes())
    assert again.to_bytes() == sketch.to_bytes()
    for key in sketch.top(10):
        assert key.low <= key.count <= key.high
    assert sketch.heaviest(3) == again.heaviest(3)
    before = Heavy.from_bytes(written)
    try:
        sketch.add_many(["a"], [1])
        sketch.merge(before)
    except BadInputError:
        assert sketch.added >= 2**62 or before.removed >= 2**62 or sketch.removed >= 2**62
    assert Heavy.from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()
