"""What a sketch answers: a value, and the bounds between which the truth is."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with bounds, both included. Each sketch says how sure it is of them."""

    value: float
    low: float
    high: float


def around(value: float, standard_error: float, at_least: int = 0) -> Estimate:
    """Bounds of two relative standard errors around a count: about 95 % confidence.

    What is counted is whole, so the bounds are rounded outwards; `at_least` is known for certain.
    """
    low = math.floor(value / (1 + 2 * standard_error))
    high = math.ceil(value / (1 - 2 * standard_error))
    return Estimate(value, float(max(low, at_least)), float(max(high, at_least)))
