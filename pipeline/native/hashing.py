"""CityHash64 of a column of texts, as sketches/hashing.py has it of each.

The version is ClickHouse's (1.0.2), whose constants and steps these are. Texts of more than 64
bytes, which nearly no member has, are left to the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types, uint64

from pipeline.native.kernel import BYTES, INT32, UINT64_OUT, kernel, within_kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

SIZE_MAX = 64

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_K3 = np.uint64(0xC949D7C7509E6557)
_MULTIPLIER = np.uint64(0x9DDFEA08EB382D69)


@within_kernels
def _fetch(data: Bytes, at: int, size: int) -> np.uint64:
    """So many bytes as one number, the lowest first."""
    word = uint64(0)
    for place in range(size):
        word |= uint64(data[at + place]) << uint64(8 * place)
    return word


@within_kernels
def _rotated(word: np.uint64, bits: int) -> np.uint64:
    return word >> uint64(bits) | word << uint64(64 - bits)


@within_kernels
def _mixed(word: np.uint64) -> np.uint64:
    return word ^ word >> uint64(47)


@within_kernels
def _of_two(low: np.uint64, high: np.uint64) -> np.uint64:
    first = _mixed((low ^ high) * _MULTIPLIER)
    return _mixed((high ^ first) * _MULTIPLIER) * _MULTIPLIER


@within_kernels
def _up_to_16(data: Bytes, at: int, size: int) -> np.uint64:
    length = uint64(size)
    if size > 8:
        last = _fetch(data, at + size - 8, 8)
        return _of_two(_fetch(data, at, 8), _rotated(last + length, size)) ^ last
    if size >= 4:
        first = _fetch(data, at, 4)
        return _of_two(length + (first << uint64(3)), _fetch(data, at + size - 4, 4))
    if size > 0:
        low = uint64(data[at]) + (uint64(data[at + (size >> 1)]) << uint64(8))
        high = length + (uint64(data[at + size - 1]) << uint64(2))
        return _mixed(low * _K2 ^ high * _K3) * _K2
    return _K2


@within_kernels
def _up_to_32(data: Bytes, at: int, size: int) -> np.uint64:
    first, second = _fetch(data, at, 8) * _K1, _fetch(data, at + 8, 8)
    last, before = _fetch(data, at + size - 8, 8) * _K2, _fetch(data, at + size - 16, 8) * _K0
    return _of_two(
        _rotated(first - second, 43) + _rotated(last, 30) + before,
        first + _rotated(second ^ _K3, 20) - last + uint64(size),
    )


@within_kernels
def _of_half(
    first: np.uint64, second: np.uint64, third: np.uint64, last: np.uint64
) -> tuple[np.uint64, np.uint64]:
    rotated = _rotated(first + last, 52)
    other = _rotated(first, 37)
    first += second
    other += _rotated(first, 7)
    first += third
    return first + last, rotated + _rotated(first, 31) + other


@within_kernels
def _up_to_64(data: Bytes, at: int, size: int) -> np.uint64:
    end = at + size
    first = _fetch(data, at, 8) + (uint64(size) + _fetch(data, end - 16, 8)) * _K0
    low, high = _of_half(
        first, _fetch(data, at + 8, 8), _fetch(data, at + 16, 8), _fetch(data, at + 24, 8)
    )
    first = _fetch(data, at + 16, 8) + _fetch(data, end - 32, 8)
    other_low, other_high = _of_half(
        first, _fetch(data, end - 24, 8), _fetch(data, end - 16, 8), _fetch(data, end - 8, 8)
    )
    mixed = _mixed((low + other_high) * _K2 + (other_low + high) * _K0)
    return _mixed(mixed * _K0 + high) * _K2


@kernel(types.int64(BYTES, INT32, UINT64_OUT))
def hash_texts(data: Bytes, starts: NDArray[np.int32], hashed: NDArray[np.uint64]) -> int:
    """Hash the texts that begin at `starts` of `data`, each up to where the next begins.

    Returns how many texts are longer than SIZE_MAX; their hashes then mean nothing.
    """
    too_long = 0
    for row in range(len(hashed)):
        at = starts[row]
        size = starts[row + 1] - at
        if size <= 16:
            hashed[row] = _up_to_16(data, at, size)
        elif size <= 32:
            hashed[row] = _up_to_32(data, at, size)
        elif size <= SIZE_MAX:
            hashed[row] = _up_to_64(data, at, size)
        else:
            too_long += 1
    return too_long
