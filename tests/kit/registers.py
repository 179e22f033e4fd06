"""HyperLogLog registers by their definition, for truths: knows nothing of Tally."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from clickhouse_cityhash.cityhash import CityHash64

REGISTER_BITS = 12

LAST_DIGITS = 1e-9
"""So far, as a share, may two ways to compute an estimate be apart: logarithms differ in them."""


def registers_of(members: Iterable[str]) -> dict[int, int]:
    """The first bits of a member's hash choose a register, the zeros after them are its rank."""
    ranks: dict[int, int] = {}
    for member in members:
        digits = f"{CityHash64(member.encode()):064b}"
        rest = digits[REGISTER_BITS:]
        register = int(digits[:REGISTER_BITS], 2)
        ranks[register] = max(ranks.get(register, 0), len(rest) - len(rest.lstrip("0")) + 1)
    return ranks


def estimate_of(ranks: Mapping[int, int]) -> float:
    """About how many members gave these registers, by Ertl's estimator (arXiv 1702.01284, 6)."""
    registers, rank_max = 1 << REGISTER_BITS, 64 - REGISTER_BITS + 1
    counts = Counter(ranks.values())
    total: float = registers * _tau(1 - counts[rank_max] / registers)
    for rank in range(rank_max - 1, 0, -1):
        total = (total + counts[rank]) / 2
    total += registers * _sigma((registers - len(ranks)) / registers)
    return registers * registers / (2 * math.log(2) * total)


def uniques_of(ranks: Mapping[int, int]) -> set[tuple[int, int, int]]:
    """What is told of these registers: the whole number, and between which the truth is.

    Two relative standard errors of 1.04 / 2^(p/2), rounded outwards, and never below the registers
    that were hit (docs/sketches/distinct.md). One, but where the last digits decide a rounding.
    """
    apart, estimate = 2 * 1.04 / 2 ** (REGISTER_BITS / 2), estimate_of(ranks)
    told = set()
    for one in (estimate * (1 - LAST_DIGITS), estimate, estimate * (1 + LAST_DIGITS)):
        low = max(math.floor(one / (1 + apart)), len(ranks))
        high = max(math.ceil(one / (1 - apart)), len(ranks))
        told.add((max(math.floor(one + 0.5), low), low, high))
    return told


def _sigma(empty: float) -> float:
    """Of the share of registers without a member."""
    total, power, weight = empty, empty, 1.0
    while (power := power * power) > 0:
        total += power * weight
        weight *= 2
        if weight > 2**64:
            return math.inf
    return total


def _tau(below: float) -> float:
    """Of the share of registers whose rank is not the greatest there is."""
    if below in {0.0, 1.0}:
        return 0.0
    total, root, weight = 1 - below, below, 1.0
    for _ in range(64):
        root = math.sqrt(root)
        weight /= 2
        total -= (1 - root) ** 2 * weight
    return total / 3
