"""What a run showed, second by second, and in short. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from benchmarks._log_rows import Seen
    from benchmarks._viral_load import Curve

BORDER_S = 2
"""So long after a change rows by the former plan may still come."""


class Change(NamedTuple):
    """From a moment on the plan had so many shards for the counter."""

    at_s: float
    shards: int


class Second(NamedTuple):
    """The counter's rows in a second of the log, its shards at the end of it, and the part of the
    busiest partition: of the counter's rows, and of all rows. NaN where there were none."""

    at_s: int
    rows: int
    shards: int
    share: float
    share_of_all: float


@dataclass(frozen=True, slots=True)
class Findings:
    """In short; times in seconds, shares from 0 to 1."""

    most_shards: int
    over_to_split_s: float
    rise_to_most_s: float
    fall_to_whole_s: float
    share_before: float
    share_split: float
    share_of_all_before: float
    share_of_all_most: float
    share_of_all_split: float


def seconds(
    seen: Iterable[Seen], changes: Sequence[Change], began_ms: int, partitions: int
) -> list[Second]:
    """The whole seconds from the beginning to the last that the log has something of."""
    frames = [one for one in seen if one.rows and one.at_ms >= began_ms]
    length = max(((one.at_ms - began_ms) // 1000 for one in frames), default=0)
    watched = np.zeros((length, partitions), np.int64)
    rows = np.zeros((length, partitions), np.int64)
    for one in frames:
        second = (one.at_ms - began_ms) // 1000
        if second < length:
            watched[second, one.partition] += one.watched
            rows[second, one.partition] += one.rows
    return [
        Second(
            at_s,
            int(watched[at_s].sum()),
            shards_at(changes, at_s + 1),
            _busiest(watched[at_s]),
            _busiest(rows[at_s]),
        )
        for at_s in range(length)
    ]


def shards_at(changes: Iterable[Change], at_s: float) -> int:
    """How many the plan had at a moment."""
    return [1, *(change.shards for change in changes if change.at_s <= at_s)][-1]


def findings(
    found: Sequence[Second], changes: Sequence[Change], curve: Curve, rate_max: float
) -> Findings:
    """Raises ValueError where the counter was never split, is not whole again, or was not watched
    for a while with all its shards."""
    split = [change for change in changes if change.shards > 1]
    if not split or changes[-1].shards != 1:
        raise ValueError(f"the counter was not split and merged again: {changes}")
    most = max(split, key=lambda change: change.shards)
    before = [one for one in found if one.at_s + 1 < curve.calm_s]
    after = [one for one in found if most.at_s + BORDER_S <= one.at_s < curve.fall_at_s - 1]
    if not after:
        raise ValueError("the load fell before its spread could be seen: give more --seconds")
    return Findings(
        most_shards=most.shards,
        over_to_split_s=split[0].at_s - curve.reaches_at_s(rate_max),
        rise_to_most_s=most.at_s - curve.calm_s,
        fall_to_whole_s=changes[-1].at_s - curve.fall_at_s,
        share_before=_mean([one.share for one in before]),
        share_split=_mean([one.share for one in after]),
        share_of_all_before=_mean([one.share_of_all for one in before]),
        share_of_all_most=max(one.share_of_all for one in found if one.at_s >= curve.calm_s),
        share_of_all_split=_mean([one.share_of_all for one in after]),
    )


def _busiest(rows: NDArray[np.int64]) -> float:
    return float(rows.max() / rows.sum()) if rows.any() else float("nan")


def _mean(values: Sequence[float]) -> float:
    return float(np.nanmean(values))
