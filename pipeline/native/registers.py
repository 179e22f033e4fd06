"""Members into registers, one after the other: what sketches/register_table.py does in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import int64, types, uint64

from pipeline.native.kernel import INT64, INT64_OUT, UINT64, UINT64_OUT, kernel, within_kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    UInt64s = NDArray[np.uint64]
    Int64s = NDArray[np.int64]

_SCATTER = 0x9E3779B97F4A7C15  # as in the table's columns, which find the same places


@within_kernels
def _rank(rest: np.uint64) -> np.uint64:
    """How many zeros come before the first one, plus one."""
    rank = uint64(1)
    while not rest >> uint64(63):
        rest <<= uint64(1)
        rank += uint64(1)
    return rank


@kernel(types.int64(UINT64_OUT, types.int64, INT64, UINT64, INT64, UINT64, UINT64_OUT, INT64_OUT))
def raise_members(
    entries: UInt64s,
    first: int,
    rows: Int64s,
    precisions: UInt64s,
    which: Int64s,
    hashed: UInt64s,
    raised: UInt64s,
    counts: Int64s,
) -> int:
    """Raise registers by the members from `first` on, until the table is half full.

    Member `m` belongs to `rows[which[m]]`, with that precision; one of 0 passes it over. `counts`
    has how many registers of the table were hit, and how many entries `raised` has; both grow.
    Returns the member to go on with.
    """
    bits = uint64(0)
    while uint64(1) << bits < uint64(len(entries)):
        bits += uint64(1)
    mask, hit, rose = uint64(len(entries) - 1), counts[0], counts[1]
    member = first
    while member < len(which) and 2 * (hit + 1) <= len(entries):
        owner, value = which[member], hashed[member]
        member += 1
        precision = precisions[owner]
        if precision == uint64(0):
            continue
        key = uint64(rows[owner]) << uint64(16) | value >> (uint64(64) - precision)
        rest = value << precision | uint64(1) << (precision - uint64(1))
        register = key << uint64(8) | _rank(rest)
        at, step = key * uint64(_SCATTER) >> (uint64(64) - bits), uint64(0)
        while entries[at] != uint64(0) and entries[at] >> uint64(8) != key:
            step += uint64(1)
            at = (at + step) & mask
        if register > entries[at]:
            hit += int64(entries[at] == uint64(0))
            entries[at] = register
            raised[rose] = register
            rose += 1
    counts[0], counts[1] = hit, rose
    return member
