"""Waiting until increments are counted: what was sent is then in every answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pipeline.clock import Clock
    from pipeline.reads.reads import FlushedShard, Reads

POLL_S = 0.1
_NAMED_MAX = 3


class Behind(NamedTuple):
    """A shard that is not yet counted up to a place; `through` is -1 for one that never was."""

    shard: int
    through: int
    offset: int


def behind(positions: Sequence[FlushedShard], places: Mapping[int, int]) -> list[Behind]:
    """The shards that are not counted up to these places: the last offset by partition. Pure."""
    through = {shard.shard: shard.flushed_through for shard in positions}
    return [
        Behind(shard, through.get(shard, -1), offset)
        for shard, offset in sorted(places.items())
        if through.get(shard, -1) < offset
    ]


def told(shards: Sequence[Behind]) -> str:
    """How far they are, in words; empty for none. Pure."""
    texts = [f"shard {one.shard} is at {one.through} of {one.offset}" for one in shards]
    more = len(texts) - _NAMED_MAX
    return ", ".join(texts[:_NAMED_MAX]) + (f", and {more} more" if more > 0 else "")


def wait_until_counted(
    reads: Reads,
    places: Mapping[int, int],
    timeout_s: float,
    clock: Clock,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Blocks until ClickHouse has everything up to these places; False if that is not in time.

    `places` is the last offset by partition, as a producer's receipt tells them. Asks at least
    once. Raises TryAgainError when ClickHouse does not answer.
    """
    deadline_s = clock.monotonic_s() + timeout_s
    while behind(reads.positions(), places):
        left_s = deadline_s - clock.monotonic_s()
        if left_s <= 0:
            return False
        pause(min(POLL_S, left_s))
    return True
