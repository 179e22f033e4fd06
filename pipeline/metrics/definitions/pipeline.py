"""What Kafka and ClickHouse tell of the whole pipeline. Exposed by the web process.

All of it is what `tally status` shows. A figure that is not known is not exposed.
"""

from typing import NamedTuple

from pipeline.metrics.definition import Gauge, Unlabelled
from pipeline.reason_kinds import ReasonKind


class ByShard(NamedTuple):
    """A shard: a partition of the log."""

    shard: int


class ByKind(NamedTuple):
    """Why a dead letter is one."""

    kind: ReasonKind


UP = Gauge(
    "tally_pipeline_up",
    Unlabelled,
    "1 if Kafka and ClickHouse told how the pipeline is doing when last asked, else 0.",
)
OBSERVED_AGE = Gauge(
    "tally_pipeline_observed_age_seconds",
    Unlabelled,
    "How old the figures of the pipeline are: they are kept between scrapes.",
)
HEALTHY = Gauge(
    "tally_pipeline_healthy", Unlabelled, "1 if `tally status` finds no problem, else 0."
)
PROBLEMS = Gauge(
    "tally_pipeline_problems", Unlabelled, "How many problems `tally status` tells of."
)
REMARKS = Gauge("tally_pipeline_remarks", Unlabelled, "How many remarks `tally status` makes.")
BUILD = Gauge("tally_pipeline_build", Unlabelled, "The number of the build that views read.")
SHARD_LAG = Gauge(
    "tally_pipeline_shard_lag",
    ByShard,
    "Offsets of the log that are not in ClickHouse yet.",
)
SHARD_BEHIND = Gauge(
    "tally_pipeline_shard_behind_seconds",
    ByShard,
    "How old the log is where a lagging shard counts; 0 without lag.",
)
SHARD_AHEAD = Gauge(
    "tally_pipeline_shard_ahead_seconds",
    ByShard,
    "How far a shard's log time is ahead of the clock.",
)
SHARD_FLUSH_AGE = Gauge(
    "tally_pipeline_shard_flush_age_seconds",
    ByShard,
    "How long ago the shard was flushed.",
)
SHARD_CHECKPOINT_AGE = Gauge(
    "tally_pipeline_shard_checkpoint_age_seconds",
    ByShard,
    "How long ago the shard was checkpointed.",
)
SHARD_FRESHNESS_P99 = Gauge(
    "tally_pipeline_shard_freshness_p99_seconds",
    ByShard,
    "How long 99 of 100 heartbeats of the shard took at most into ClickHouse, in five minutes.",
)
LAG_MEAN = Gauge("tally_pipeline_lag_mean", Unlabelled, "The lag of shards, on average.")
LAG_MAX = Gauge("tally_pipeline_lag_max", Unlabelled, "The greatest lag of a shard.")
FRESHNESS_P50 = Gauge(
    "tally_pipeline_freshness_p50_seconds",
    Unlabelled,
    "How long half of the heartbeats took at most from the log into ClickHouse, in five minutes.",
)
FRESHNESS_P99 = Gauge(
    "tally_pipeline_freshness_p99_seconds",
    Unlabelled,
    "How long 99 of 100 heartbeats took at most from the log into ClickHouse, in five minutes.",
)
FRESHNESS_P99_MAX = Gauge(
    "tally_pipeline_freshness_p99_max_seconds",
    Unlabelled,
    "The greatest p99 of a single shard.",
)
ROLLUP_AGE = Gauge(
    "tally_pipeline_rollup_age_seconds",
    Unlabelled,
    "How long ago the family whose rollup is oldest was rolled up.",
)
ROLLUP_INTERVAL = Gauge(
    "tally_pipeline_rollup_interval_seconds",
    Unlabelled,
    "How often families are to be rolled up, by the settings of the process that tells it.",
)
LATE_ROLLUPS = Gauge(
    "tally_pipeline_late_rollups",
    Unlabelled,
    "Families whose rollup missed three intervals.",
)
TRENDS_BEHIND = Gauge(
    "tally_pipeline_trends_behind_seconds",
    Unlabelled,
    "Log time that is flushed and not scored for trends yet.",
)
DEAD_LETTERS = Gauge(
    "tally_pipeline_dead_letters",
    ByKind,
    "Dead letters of the live build in ClickHouse, by the kind of their reason.",
)
DEAD_LETTERS_LAST_HOUR = Gauge(
    "tally_pipeline_dead_letters_last_hour",
    Unlabelled,
    "Dead letters whose log time is within the last hour.",
)
DIFFERENCES = Gauge(
    "tally_pipeline_differences",
    Unlabelled,
    "Numbers that differ between log and ClickHouse, as they were last compared.",
)
CAPPED_FAMILIES = Gauge(
    "tally_pipeline_capped_families",
    Unlabelled,
    "Families that had more counters than their cap within a day.",
)
CAPPED_INCREMENTS = Gauge(
    "tally_pipeline_capped_increments",
    Unlabelled,
    "What was counted past caps within a day, under the counters that stand for the rest.",
)
SPLIT_COUNTERS = Gauge(
    "tally_pipeline_split_counters",
    Unlabelled,
    "Counters that the shard plan has split.",
)

PIPELINE = (
    UP,
    OBSERVED_AGE,
    HEALTHY,
    PROBLEMS,
    REMARKS,
    BUILD,
    SHARD_LAG,
    SHARD_BEHIND,
    SHARD_AHEAD,
    SHARD_FLUSH_AGE,
    SHARD_CHECKPOINT_AGE,
    SHARD_FRESHNESS_P99,
    LAG_MEAN,
    LAG_MAX,
    FRESHNESS_P50,
    FRESHNESS_P99,
    FRESHNESS_P99_MAX,
    ROLLUP_AGE,
    ROLLUP_INTERVAL,
    LATE_ROLLUPS,
    TRENDS_BEHIND,
    DEAD_LETTERS,
    DEAD_LETTERS_LAST_HOUR,
    DIFFERENCES,
    CAPPED_FAMILIES,
    CAPPED_INCREMENTS,
    SPLIT_COUNTERS,
)
