"""A believable stream of events: posts liked and unliked, pages viewed, hashtags used. Pure.

A few counters get most of the events (Zipf), as in life; now and then a hashtag that nobody used
bursts. The same seed gives the same stream.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

REGIONS = ("eu", "us", "asia", "africa", "latam")
_REGION_SHARES = (0.30, 0.28, 0.27, 0.08, 0.07)
_MEMBERS = 50_000
_BURST_MS = 120_000
"""How long a burst lasts, and how often a new one begins."""

# fmt: off
_WORDS = (
    "cats", "dogs", "coffee", "sunrise", "football", "election", "recipe", "music",
    "travel", "gaming", "fashion", "science", "art", "history", "weather", "books",
    "cinema", "fitness", "garden", "space", "python", "rust", "streaming", "data",
)
# fmt: on
_PAGES = ("/", "/about", "/pricing", "/blog", "/docs", "/login", "/search", "/help", "/jobs")


_FAMILY_SHARES = (0.4, 0.4, 0.2)
"""Of likes, views and hashtags."""


class SyntheticStream:
    """Makes events for given moments. Not thread-safe."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        names = (
            [f"likes:post-{n}" for n in range(1, 2_001)],
            [f"views:{page}" for page in (*_PAGES, *(f"/blog/{n}" for n in range(500)))],
            [f"hashtag:#{tag}" for tag in (*_WORDS, *(f"topic{n}" for n in range(500)))],
        )
        # The last one stands for whatever bursts.
        self._counters = [*(name for family in names for name in family), ""]
        self._is_likes = np.array([name.startswith("likes:") for name in self._counters])
        self._shares = np.concatenate(
            [share * _zipf(len(each)) for share, each in zip(_FAMILY_SHARES, names, strict=True)]
        )
        self._members = pa.array([f"member-{n}" for n in range(_MEMBERS)], pa.string())
        self._regions = pa.array(REGIONS, pa.string())

    def events(self, at_ms: int, count: int) -> pa.Table:
        """`count` events that happen at `at_ms`, in the columns of a frame."""
        chosen = self._rng.choice(len(self._shares), count, p=self._shares)
        bursting = self._rng.random(count) < _burst_share(at_ms)
        chosen[bursting] = len(self._counters) - 1
        counters = pa.array([*self._counters[:-1], _burst_counter(at_ms)], pa.string())
        unliked = (self._rng.random(count) < 0.05) & self._is_likes[chosen]
        members = self._rng.integers(_MEMBERS, size=count)
        regions = self._rng.choice(len(REGIONS), count, p=_REGION_SHARES)
        return pa.table(
            {
                "counter": counters.take(pa.array(chosen)),
                "delta": np.where(unliked, -1, 1),
                "at": np.full(count, at_ms, np.int64),
                "member": self._members.take(pa.array(members)),
                "region": self._regions.take(pa.array(regions)),
                "id": pa.nulls(count, pa.string()),
            }
        )


def _zipf(size: int) -> NDArray[np.float64]:
    shares = 1 / np.arange(1, size + 1, dtype=np.float64)
    return np.asarray(shares / shares.sum())


def _burst_share(at_ms: int) -> float:
    """From nothing to a tenth of everything and back, once per burst."""
    phase = (at_ms % _BURST_MS) / _BURST_MS
    return float(0.1 * np.sin(np.pi * phase) ** 2)


def _burst_counter(at_ms: int) -> str:
    return f"hashtag:#breaking{at_ms // _BURST_MS % 1_000}"
