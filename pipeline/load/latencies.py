"""How long deliveries took, in bounded memory. Pure, not thread-safe."""

from __future__ import annotations

import math

import numpy as np

LEAST_MS = 0.01
STEP = 1.02
"""Each bin is so much wider than the one before it, so an answer is off by 1 % at most."""

_BINS = 1_200
_LOG_STEP = math.log(STEP)


class Latencies:
    """Counts latencies in bins, from a hundredth of a millisecond to days."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS, np.int64)

    def add(self, latency_ms: float) -> None:
        number = int(math.log(max(latency_ms, LEAST_MS) / LEAST_MS) / _LOG_STEP)
        self._counts[min(number, _BINS - 1)] += 1

    def merge(self, other: Latencies) -> None:
        self._counts += other._counts

    def quantile_ms(self, share: float) -> float | None:
        """So large a share of latencies is at most this; None if there are none."""
        heights = np.cumsum(self._counts)
        if not heights[-1]:
            return None
        number = int(np.searchsorted(heights, share * heights[-1], side="left"))
        return float(LEAST_MS * STEP ** (number + 0.5))
