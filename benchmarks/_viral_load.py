"""The load of a counter that goes viral, beside a steady one of many others, and its truth.

Imports nothing of the program under test: it is given what sends.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    Send: TypeAlias = Callable[[Mapping[str, pa.Array]], object]

VIRAL = "likes:celebrity"
OTHERS = 2_000
MEMBERS = 100_000
SKEW = 0.8
"""Zipf's exponent of the others: none of them is hot itself."""


class Curve(NamedTuple):
    """Increments a second: low, then up to high by a constant factor, there a while, and back."""

    low: float
    high: float
    calm_s: float
    rise_s: float
    high_s: float
    fall_s: float

    @property
    def fall_at_s(self) -> float:
        """When it begins to fall."""
        return self.calm_s + self.rise_s + self.high_s

    def rate(self, at_s: float) -> float:
        """At a moment since the beginning."""
        growth = self.high / self.low
        if at_s < self.fall_at_s:
            risen = (at_s - self.calm_s) / self.rise_s
            return float(self.low * growth ** min(1.0, max(0.0, risen)))
        fallen = (at_s - self.fall_at_s) / self.fall_s
        return float(self.high / growth ** min(1.0, fallen))

    def reaches_at_s(self, rate: float) -> float:
        """When it has risen to a rate."""
        risen = np.log(rate / self.low) / np.log(self.high / self.low)
        return float(self.calm_s + self.rise_s * risen)


@dataclass
class Load:
    """Sends what is due, shared evenly among the senders; one call after the other.

    Every viral increment has a member, so none combine. In every turn one of them has an id and is
    sent by every sender, as a retry would: it counts once.
    """

    senders: Sequence[Send]
    others_rate: float
    seed: int = 1
    duplicates: int = 0
    """How many increments must be skipped because their id was counted."""

    windows: dict[tuple[str, int], int] = field(default_factory=dict)
    """What must be counted, by counter and the minute's start in seconds."""

    def __post_init__(self) -> None:
        self._draw = np.random.default_rng(self.seed)
        self._names = pa.array([VIRAL, *(f"likes:post-{number}" for number in range(OTHERS))])
        self._members = pa.array([f"user-{number}" for number in range(MEMBERS)])
        weights = np.arange(1, OTHERS + 1) ** -SKEW
        self._up_to = np.cumsum(weights / weights.sum())[:-1]
        self._owed = np.zeros(2)
        self._turns = 0

    def turn(self, rate: float, passed_s: float) -> int:
        """What is due after so many seconds at this rate; how many of it are viral."""
        self._owed += np.array([rate, self.others_rate]) * passed_s
        viral, others = self._owed.astype(np.int64).tolist()
        self._owed -= (viral, others)
        at_ms = time.time_ns() // 1_000_000
        counters = np.zeros(viral + others, np.int64)
        counters[viral:] = 1 + np.searchsorted(self._up_to, self._draw.random(others))
        self._draw.shuffle(counters)
        for part, send in zip(
            np.array_split(counters, len(self.senders)), self.senders, strict=True
        ):
            if len(part):
                send(self._columns(part, at_ms))
                self._count(part, at_ms)
        return viral + self._send_id(at_ms)

    def _columns(self, counters: np.ndarray, at_ms: int) -> dict[str, pa.Array]:
        members = self._draw.integers(0, MEMBERS, len(counters))
        return {
            "counter": self._names.take(pa.array(counters)),
            "member": self._members.take(pa.array(members)),
            "at": pa.array(np.full(len(counters), at_ms)),
        }

    def _send_id(self, at_ms: int) -> int:
        self._turns += 1
        columns = {"counter": [VIRAL], "id": [f"like-{self._turns}"], "at": [at_ms]}
        for send in self.senders:
            send({name: pa.array(values) for name, values in columns.items()})
        self._count(np.zeros(1, np.int64), at_ms)
        self.duplicates += len(self.senders) - 1
        return 1

    def _count(self, counters: np.ndarray, at_ms: int) -> None:
        minute_s = at_ms // 60_000 * 60
        found, counts = np.unique(counters, return_counts=True)
        for counter, count in zip(found.tolist(), counts.tolist(), strict=True):
            key = (self._names[counter].as_py(), minute_s)
            self.windows[key] = self.windows.get(key, 0) + count
