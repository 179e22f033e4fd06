"""How many registers a distinct count needs for how great an error. Pure.

It imports nothing heavy: every command that reads rules needs it.
"""

import math

from pipeline.errors import BadInputError

PRECISION_MIN, PRECISION_MAX = 4, 16  # a register's number fits the UInt16 of the tables


def standard_error(precision: int) -> float:
    """The relative standard error of an estimate at its worst; small counts do better."""
    return 1.04 / math.sqrt(1 << precision)


def precision_for(error: float) -> int:
    """The least precision whose relative standard error is at most `error` (0.0041 to 0.26).

    Raises BadInputError for an error that none has.
    """
    least, most = standard_error(PRECISION_MAX), standard_error(PRECISION_MIN)
    if not least <= error <= most:
        raise BadInputError(
            f"a standard error of {error} is not between {least:.4f} and {most:.2f}"
        )
    return max(PRECISION_MIN, math.ceil(2 * math.log2(1.04 / error)))
