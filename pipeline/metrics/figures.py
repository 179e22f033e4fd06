"""What `tally status` found as values of the pipeline's metrics. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.metrics.definitions import pipeline as metric
from pipeline.reason_kinds import REASON_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.metrics.definition import GaugeSeries
    from pipeline.reads.health import ShardStatus, Status

Figure = tuple["GaugeSeries", float]


@dataclass(frozen=True, slots=True)
class Seen:
    """How the pipeline was doing, of which build, and how often it is to be rolled up."""

    status: Status
    build: int
    rollup_interval_s: float


def figures(seen: Seen) -> Iterator[Figure]:
    """All that is known; what is not is left out."""
    status = seen.status
    yield metric.HEALTHY(), status.healthy
    yield metric.PROBLEMS(), len(status.problems)
    yield metric.REMARKS(), len(status.remarks)
    yield metric.BUILD(), seen.build
    for shard in status.shards:
        yield from _shard_figures(shard)
    if status.lag is not None:
        yield metric.LAG_MEAN(), status.lag.mean
        yield metric.LAG_MAX(), status.lag.greatest
    if status.freshness is not None:
        yield metric.FRESHNESS_P50(), status.freshness.p50_ms / 1000
        yield metric.FRESHNESS_P99(), status.freshness.p99_ms / 1000
    if status.freshness_p99_ms is not None:
        yield metric.FRESHNESS_P99_MAX(), status.freshness_p99_ms.greatest / 1000
    if status.rollup_age_ms_max is not None:
        yield metric.ROLLUP_AGE(), status.rollup_age_ms_max / 1000
    yield metric.ROLLUP_INTERVAL(), seen.rollup_interval_s
    yield metric.LATE_ROLLUPS(), len(status.late_rollups)
    if status.trends_behind_ms is not None:
        yield metric.TRENDS_BEHIND(), status.trends_behind_ms / 1000
    for kind in REASON_KINDS:
        yield metric.DEAD_LETTERS(kind=kind), status.dead_letters.by_kind.get(kind, 0)
    yield metric.DEAD_LETTERS_LAST_HOUR(), status.dead_letters.last_hour
    yield metric.DIFFERENCES(), status.reconciled.differences
    yield metric.CAPPED_FAMILIES(), len(status.capped)
    yield metric.CAPPED_INCREMENTS(), sum(spill.amount for spill in status.capped)
    yield metric.SPLIT_COUNTERS(), status.shard_plan.split


def _shard_figures(shard: ShardStatus) -> Iterator[Figure]:
    number = shard.shard
    yield metric.SHARD_LAG(shard=number), shard.lag
    yield metric.SHARD_BEHIND(shard=number), shard.behind_ms / 1000
    yield metric.SHARD_AHEAD(shard=number), shard.ahead_ms / 1000
    if shard.flush_age_ms is not None:
        yield metric.SHARD_FLUSH_AGE(shard=number), shard.flush_age_ms / 1000
    if shard.checkpoint_age_ms is not None:
        yield metric.SHARD_CHECKPOINT_AGE(shard=number), shard.checkpoint_age_ms / 1000
    if shard.freshness_p99_ms is not None:
        yield metric.SHARD_FRESHNESS_P99(shard=number), shard.freshness_p99_ms / 1000
