"""HyperLogLog registers as columns, and the one estimator over them. Pure functions.

A member's 64-bit hash chooses a register by its first `precision` bits; its **rank** is the number
of leading zeros in the other bits, plus one. A register keeps the greatest rank, so registers merge
by max, in any order, any number of times.

The estimator is Ertl's (arXiv 1702.01284, section 4): no tables, no switching between formulas, no
bias to speak of from the first member to beyond 2^64. Here it is made of whole-number sums and of
operations that IEEE 754 rounds in one way only (+ - * / and the square root), always in the same
order; no logarithm, no power. That is why sketches/sql.py gets the same number to the last digit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import BadInputError
from sketches.hashing import hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sketches.hashing import Column

    Indexes = NDArray[np.uint16]
    Ranks = NDArray[np.uint8]

STEPS = 32  # of both series below; the last third of them changes nothing even at precision 16
ALPHA = (3248660424278399, 4503599627370496)  # 1 / (2 ln 2), as the exact fraction a double holds
WHOLE_MAX = 18446744073709549568.0  # the greatest double below 2^64, what a UInt64 can tell
_EXPONENT_OF_RANK_0 = 1023 + 64  # a double's exponent is stored with 1023 added
assert ALPHA[0] / ALPHA[1] == 1 / (2 * math.log(2))


def rank_max(precision: int) -> int:
    """The rank of a hash whose bits after the register's number are all zero."""
    return 65 - precision


def placed(members: Column, precision: int) -> tuple[Indexes, Ranks]:
    """Register and rank of every member of a column; raises BadInputError as `hashes` does."""
    return of_hashes(hashes(members), precision)


def of_hashes(
    hashed: NDArray[np.uint64], precision: int | NDArray[np.uint64]
) -> tuple[Indexes, Ranks]:
    """Register and rank of every hash, all of one precision or each of its own."""
    bits = np.asarray(precision, np.uint64)
    indexes = (hashed >> np.uint64(64) - bits).astype(np.uint16)
    # A one after the last bit ends the zeros where all bits are zero.
    rest = (hashed << bits) | np.uint64(1) << bits - np.uint64(1)
    # The exponent of a double tells where the first one is. Without a second one right after it, no
    # number is ever rounded up to the next power of two.
    exponents = (rest & ~(rest >> np.uint64(1))).astype(np.float64).view(np.uint64) >> np.uint64(52)
    return indexes, (np.uint64(_EXPONENT_OF_RANK_0) - exponents).astype(np.uint8)


def folded(indexes: Indexes, ranks: Ranks, wide: int, narrow: int) -> tuple[Indexes, Ranks]:
    """Registers of precision `wide` as the same members would have made them at `narrow`, exactly.

    The last bits of a register's number become the first ones that its rank is counted in. Returns
    each register once, ascending. Raises BadInputError for a precision that is greater.
    """
    if narrow > wide:
        raise BadInputError(f"registers of precision {wide} cannot be unfolded to {narrow}")
    spare = wide - narrow
    rest = indexes & np.uint16((1 << spare) - 1)
    lengths = np.frexp(rest.astype(np.float64))[1]
    risen = np.where(rest > 0, spare + 1 - lengths, ranks.astype(np.int64) + spare)
    found = np.zeros(1 << narrow, np.uint8)
    np.maximum.at(found, indexes >> np.uint16(spare), risen.astype(np.uint8))
    hit = np.flatnonzero(found)
    return hit.astype(np.uint16), found[hit]


def whole(value: float) -> int:
    """An estimate as the whole number that tables and views tell: halves up, below 2^64."""
    return math.floor(min(value + 0.5, WHOLE_MAX))


def estimated(ranks: Ranks, precision: int) -> float:
    """How many members made these registers. `ranks` are those above zero, in any order."""
    registers = 1 << precision
    most = rank_max(precision)
    zeros = registers - len(ranks)
    if zeros == registers:
        return 0.0
    full = int(np.count_nonzero(ranks == most))
    if full == registers:
        return math.inf
    between = ranks[ranks < most]
    # The sum of 2^-rank as a whole number of 2^-(most - 1): exact, and below 2^63.
    powers = int(np.left_shift(np.uint64(1), (most - 1 - between).astype(np.uint64)).sum())
    weight = registers * _sigma(zeros / registers) + powers / 2.0 ** (most - 1)
    weight += registers * _tau(1 - full / registers) / 2.0 ** (most - 1)
    return ALPHA[0] / ALPHA[1] * (registers * registers) / weight


def _sigma(share: float) -> float:
    """What registers that nobody hit add, by their share: share + sum of share^(2^k) 2^(k-1)."""
    total, power, factor = share, share, 1.0
    for _ in range(STEPS):
        power = power * power
        total, factor = total + power * factor, factor + factor
    return total


def _tau(share: float) -> float:
    """What registers at the greatest rank add, by the share of all others."""
    total, root, factor = 1 - share, share, 1.0
    for _ in range(STEPS):
        root, factor = math.sqrt(root), factor * 0.5
        total = total - (1 - root) * (1 - root) * factor
    return total / 3
