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


class SyntheticStream:
    """Makes events for given moments. Not thread-safe."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        likes = [f"likes:post-{n}" for n in range(1, 2_001)]
        views = [f"views:{page}" for page in _PAGES] + [f"views:/blog/{n}" for n in range(500)]
        tags = [f"hashtag:#{word}" for word in _WORDS] + [f"hashtag:#topic{n}" for n in range(500)]
        self._counters = np.array([*likes, *views, *tags])
        self._shares = np.concatenate(
            [0.4 * _zipf(len(likes)), 0.4 * _zipf(len(views)), 0.2 * _zipf(len(tags))]
        )

    def events(self, at_ms: int, count: int) -> pa.Table:
        """`count` events that happen at `at_ms`, in the columns of a frame."""
        counters = self._rng.choice(self._counters, count, p=self._shares)
        bursting = self._rng.random(count) < _burst_share(at_ms)
        counters[bursting] = _burst_counter(at_ms)
        unliked = (self._rng.random(count) < 0.05) & np.char.startswith(counters, "likes:")
        members = self._rng.integers(_MEMBERS, size=count)
        return pa.table(
            {
                "counter": pa.array(counters.tolist(), pa.string()),
                "delta": np.where(unliked, -1, 1),
                "at": np.full(count, at_ms, np.int64),
                "member": pa.array([f"member-{n}" for n in members], pa.string()),
                "region": self._rng.choice(REGIONS, count, p=_REGION_SHARES).tolist(),
                "id": pa.nulls(count, pa.string()),
            }
        )


def _zipf(size: int) -> NDArray[np.float64]:
    shares = 1 / np.arange(1, size + 1, dtype=np.float64)
    return np.asarray(shares / shares.sum())


def _burst_share(at_ms: int) -> float:
    """From nothing to a fifth of everything and back, once per burst."""
    phase = (at_ms % _BURST_MS) / _BURST_MS
    return float(0.2 * np.sin(np.pi * phase) ** 2)


def _burst_counter(at_ms: int) -> str:
    return f"hashtag:#breaking{at_ms // _BURST_MS % 1_000}"
