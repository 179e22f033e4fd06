"""Count-Min buckets by their definition, for truths: knows nothing of Tally."""

import math

from clickhouse_cityhash.cityhash import CityHash64

ROWS = 6
_64_BITS = (1 << 64) - 1


def width_for(error: float) -> int:
    """How many buckets a row has."""
    return math.ceil(math.e / error)


def buckets_of(key: str, width: int) -> list[int]:
    """One of each row: the hash times the row's number, of which the top chooses."""
    hashed: int = CityHash64(key.encode())
    return [
        row * width + ((((hashed * _multiplier(row)) & _64_BITS) >> 32) * width >> 32)
        for row in range(ROWS)
    ]


def _multiplier(row: int) -> int:
    """SplitMix64 of the row's number, made odd."""
    mixed = (row + 0x9E3779B97F4A7C15) & _64_BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return (mixed ^ (mixed >> 31)) | 1
