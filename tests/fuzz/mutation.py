"""Inputs made of others, the same for the same seed. Pure.

Without coverage to go by, breadth is what counts: each step changes a little, and a few are taken.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_STEPS_MAX = 4
_NUMBERS = (0, 1, 2, 7, 16, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1)
_WIDE = (2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def mutated(seed: int, inputs: Sequence[bytes], count: int, bytes_max: int) -> Iterator[bytes]:
    """`count` inputs, each made of one or two of the given ones."""
    source = random.Random(seed)
    for _ in range(count):
        data = bytearray(source.choice(inputs))
        for _ in range(source.randint(1, _STEPS_MAX)):
            source.choice(_STEPS)(source, data, inputs)
        yield bytes(data[:bytes_max])


def _place(source: random.Random, data: bytearray) -> int:
    return source.randrange(len(data) + 1)


def _flip_a_bit(source: random.Random, data: bytearray, _inputs: Sequence[bytes]) -> None:
    if data:
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)


def _put_any_bytes(source: random.Random, data: bytearray, _inputs: Sequence[bytes]) -> None:
    at = _place(source, data)
    data[at : at + source.randint(0, 4)] = source.randbytes(source.randint(0, 4))


def _put_a_number(source: random.Random, data: bytearray, _inputs: Sequence[bytes]) -> None:
    width = source.choice((1, 2, 4, 8))
    number = source.choice((*_NUMBERS, *_WIDE)) % (1 << (8 * width))
    at = _place(source, data)
    data[at : at + width] = number.to_bytes(width, source.choice(("little", "big")))


def _cut(source: random.Random, data: bytearray, _inputs: Sequence[bytes]) -> None:
    at = _place(source, data)
    del data[at : at + source.choice((1, 2, 4, 16, len(data)))]


def _repeat(source: random.Random, data: bytearray, _inputs: Sequence[bytes]) -> None:
    at = _place(source, data)
    piece = bytes(data[at : at + source.randint(1, 32)])
    data[at:at] = piece * source.choice((1, 2, 8, 300))


def _splice(source: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    other = source.choice(inputs)
    start = source.randrange(len(other) + 1)
    at = _place(source, data)
    data[at : at + source.choice((0, 8, len(data)))] = other[start : start + source.randint(1, 256)]


_STEPS: tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...] = (
    _flip_a_bit,
    _put_any_bytes,
    _put_a_number,
    _cut,
    _repeat,
    _splice,
)
