"""How often each may ask: a token bucket per key. Pure but for what it remembers; time is given."""

from collections import OrderedDict
from collections.abc import Hashable

BUCKETS_MAX = 10_000
BURST_SECONDS = 2


class Buckets:
    """Buckets that hold two seconds' worth of requests, and fill at the rate.

    At most `buckets_max` are kept: the one used longest ago gives way, and starts full when it
    comes again. By then it has mostly filled up anyway.
    """

    def __init__(self, buckets_max: int = BUCKETS_MAX) -> None:
        self._buckets_max = buckets_max
        self._by_key: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_key)

    def take(self, key: Hashable, rate: float, now_s: float) -> float:
        """Take one request's worth: 0 when it was there, else in how many seconds it will be.

        `rate` is requests a second, above 0; `now_s` never goes backwards. Nothing is taken when it
        was not there, so whoever asks in vain does not wait longer for it.
        """
        burst = max(1.0, rate) * BURST_SECONDS
        level, at_s = self._by_key.pop(key, (burst, now_s))
        level = min(burst, level + (now_s - at_s) * rate)
        wait_s = 0.0 if level >= 1.0 else (1.0 - level) / rate
        self._by_key[key] = (level if wait_s else level - 1.0, now_s)
        if len(self._by_key) > self._buckets_max:
            self._by_key.popitem(last=False)
        return wait_s
