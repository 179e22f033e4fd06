"""A believable stream of events: posts liked and unliked, pages viewed, hashtags used. Pure.

A few counters get most of the events (Zipf), as in life. Regions are busiest in their own evening,
so the whole is a day's cycle in which they take turns. Now and then a hashtag that nobody used
bursts. The same seed gives the same stream.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

REGIONS = ("eu", "us", "asia", "africa", "latam")
_REGION_SHARES = np.array((0.30, 0.28, 0.27, 0.08, 0.07))
_EVENINGS_H = np.array((18.0, 25.0, 12.0, 18.0, 24.0))
"""When each is busiest, in hours of UTC."""

_EVENING_MORE = 0.5
"""How much more than its mean a region has then; as much less half a day later."""

_DAY_MS = 86_400_000
_MEMBERS = 50_000
BURST_MS = 120_000
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
        bursting = self._rng.random(count) < burst_share(at_ms)
        chosen[bursting] = len(self._counters) - 1
        counters = pa.array([*self._counters[:-1], burst_counter(at_ms)], pa.string())
        unliked = (self._rng.random(count) < 0.05) & self._is_likes[chosen]
        members = self._rng.integers(_MEMBERS, size=count)
        regions = self._rng.choice(len(REGIONS), count, p=region_shares(at_ms))
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


def _by_region(at_ms: int) -> NDArray[np.float64]:
    hour = (at_ms % _DAY_MS) / _DAY_MS * 24
    evening = np.cos((hour - _EVENINGS_H) / 24 * 2 * np.pi)
    return np.asarray(_REGION_SHARES * (1 + _EVENING_MORE * evening))


def day_level(at_ms: int) -> float:
    """How busy it is at this moment of the day, all regions together; 1 is the day's mean."""
    return float(_by_region(at_ms).sum())


def region_shares(at_ms: int) -> NDArray[np.float64]:
    """The part of the events that each of REGIONS has at this moment."""
    levels = _by_region(at_ms)
    return np.asarray(levels / levels.sum())


def _zipf(size: int) -> NDArray[np.float64]:
    shares = 1 / np.arange(1, size + 1, dtype=np.float64)
    return np.asarray(shares / shares.sum())


def burst_share(at_ms: int) -> float:
    """From nothing to a tenth of everything and back, once per burst."""
    phase = (at_ms % BURST_MS) / BURST_MS
    return float(0.1 * np.sin(np.pi * phase) ** 2)


def burst_counter(at_ms: int) -> str:
    """Whose turn it is to burst."""
    return f"hashtag:#breaking{at_ms // BURST_MS % 1_000}"
