"""How many shards a rate needs. Pure."""

from __future__ import annotations

from schemas.rules import SHARDS_MAX

ROOM = 2
"""A split brings a shard to at most the threshold divided by this, so that it has room to grow."""


def shards_for(rate: float, rate_max: float) -> int:
    """The least power of two that brings each shard to at most half of `rate_max`.

    1 where the rate does not exceed it, up to SHARDS_MAX.
    """
    if rate <= rate_max:
        return 1
    n = 1
    while n < SHARDS_MAX and rate * ROOM > n * rate_max:
        n *= 2
    return n
