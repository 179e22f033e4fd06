"""Finds where the last records of each partition begin, without rules, heartbeats and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.groupless import headers_of, read_ranges
from pipeline.lanes import INCREMENTS_KIND, KIND_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer

    from schemas.records import Headers

LOOKED_BACK_MAX = 20_000
"""How many records of a partition are looked at, unless more are asked for."""

_WIDER = 10
"""So many times as much is looked at when it was too little."""


def look_back(
    consumer: Consumer, topic: str, ends: Mapping[int, tuple[int, int]], last: int
) -> dict[int, int]:
    """By partition, the offset of the `last`-th record from the end that is no control record.

    `ends` has each partition's first offset and the one after its last. An idle partition holds
    little else than heartbeats, so more and more of it is looked at, up to a bound; then it begins
    with what was found. Blocks; raises TryAgainError when Kafka is away.
    """
    starts: dict[int, int] = {}
    back = last
    while len(starts) < len(ends):
        ranges = {
            partition: (max(first, end - back), end)
            for partition, (first, end) in ends.items()
            if partition not in starts
        }
        found: dict[int, list[int]] = {partition: [] for partition in ranges}
        for partition, offset, message in read_ranges(consumer, topic, ranges):
            if _is_increments(headers_of(message)):
                found[partition].append(offset)
        for partition, (start, end) in ranges.items():
            offsets = found[partition][-last:]
            looked_at_all = start == ends[partition][0] or back >= LOOKED_BACK_MAX
            if len(offsets) == last or looked_at_all:
                starts[partition] = offsets[0] if offsets else end
        back = min(back * _WIDER, LOOKED_BACK_MAX)
    return starts


def _is_increments(headers: Headers) -> bool:
    kind = dict(headers).get(KIND_HEADER) or INCREMENTS_KIND.encode()
    return kind == INCREMENTS_KIND.encode()
