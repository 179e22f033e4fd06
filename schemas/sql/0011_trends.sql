-- Who was there in each minute of log time, for trends: once log time is past it, it never changes.
CREATE TABLE IF NOT EXISTS tally.trend_members
(
    build     UInt32 COMMENT 'Which counting of the log this is',
    family    LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter   String COMMENT 'What is counted: family:key',
    region    LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window    DateTime('UTC') COMMENT 'The minute of log time in which it came, whenever it happened',
    precision UInt8 COMMENT 'The binary logarithm of the number of registers',
    slot_day  Date COMMENT 'The day of log time',
    registers SimpleAggregateFunction(maxMap, Map(UInt16, UInt8)) COMMENT 'HyperLogLog: the greatest rank of each register that a member hit',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, slot_day)
PRIMARY KEY (build, counter, window)
ORDER BY (build, counter, window, region, precision)
COMMENT 'Members by the minute of log time, as registers. For people: trending';

-- A row is written after the scores of that minute, and what entered or left in it, are confirmed.
CREATE TABLE IF NOT EXISTS tally.trend_windows
(
    build     UInt32 COMMENT 'Which counting of the log this is',
    window    DateTime('UTC') COMMENT 'The minute',
    scored_at DateTime64(3, 'UTC') COMMENT 'When, by ClickHouse''s clock'
)
ENGINE = ReplacingMergeTree(scored_at)
PARTITION BY (build, toStartOfMonth(window))
ORDER BY (build, window)
COMMENT 'Which minutes were scored';

-- Before it, nothing is known of a family, which is another thing than nothing having happened.
CREATE TABLE IF NOT EXISTS tally.trend_families
(
    build  UInt32 COMMENT 'Which counting of the log this is',
    family String COMMENT 'The part of the counter before the first colon',
    first  SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'The first minute that was scored with counts of it'
)
ENGINE = AggregatingMergeTree
ORDER BY (build, family)
COMMENT 'Since when each family is looked at for trends';

CREATE TABLE IF NOT EXISTS tally.trend_scores
(
    build           UInt32 COMMENT 'Which counting of the log this is',
    family          LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region          LowCardinality(String) COMMENT 'Where; * for all regions together, empty when unknown',
    window          DateTime('UTC') COMMENT 'The minute that was scored',
    counter         String COMMENT 'What is counted: family:key',
    rank            UInt32 COMMENT '1 for the most exceptional; those that only lead come after those that trend',
    observed        Int64 COMMENT 'What was counted in the minute, or in the hour that ends with it',
    expected        Float64 COMMENT 'What was to be expected of it',
    score           Float64 COMMENT 'By how much that is exceptional, in standard deviations, about',
    kind            LowCardinality(String) COMMENT 'rising: above what is usual; new: never seen before; top: leads by count alone',
    horizon_minutes UInt16 COMMENT 'How many minutes observed and expected are of: 1 or 60',
    entered         Nullable(DateTime('UTC')) COMMENT 'Since when it trends; null for those that only lead',
    scored_at       DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When, by ClickHouse''s clock'
)
ENGINE = ReplacingMergeTree(scored_at)
PARTITION BY (build, toDate(window))
ORDER BY (build, family, region, window, counter)
COMMENT 'What trended in each minute that is over. For people: trending';

-- The minute that is not over yet: it may still change, lets nobody in or out, and is soon forgotten.
CREATE TABLE IF NOT EXISTS tally.trend_provisional
AS tally.trend_scores
ENGINE = ReplacingMergeTree(scored_at)
ORDER BY (build, family, region, counter)
TTL toDateTime(scored_at) + INTERVAL 1 HOUR
COMMENT 'What trends in the minute that is not over. For people: trending_now';

-- When the minute that is not over was last looked at, whether or not anything trends in it.
CREATE TABLE IF NOT EXISTS tally.trend_open
(
    build     UInt32 COMMENT 'Which counting of the log this is',
    window    DateTime('UTC') COMMENT 'The minute',
    scored_at DateTime64(3, 'UTC') COMMENT 'When, by ClickHouse''s clock'
)
ENGINE = ReplacingMergeTree(scored_at)
ORDER BY build
COMMENT 'The last look at the minute that is not over';

-- Two leaders, or one before and after the rules changed, may have scored a minute: the ranking of the
-- pass that confirmed it last is the one that counts.
CREATE OR REPLACE VIEW tally.trend_rankings
AS SELECT
    build, family, region, window, rank, counter, observed, expected, score, kind, horizon_minutes, entered
FROM tally.trend_scores FINAL
WHERE (build, window, scored_at) IN
    (SELECT build, window, max(scored_at) FROM tally.trend_windows GROUP BY build, window)
COMMENT 'One ranking of each minute that was scored. For people: trending';

CREATE OR REPLACE VIEW tally.trending
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region LowCardinality(String) COMMENT 'Where; * for all regions together, empty when unknown',
    rank UInt32 COMMENT '1 for the most exceptional; those that only lead come after those that trend',
    counter String COMMENT 'What is counted: family:key',
    observed Int64 COMMENT 'What was counted in the minute, or in the hour that ends with it',
    expected Float64 COMMENT 'What was to be expected of it',
    score Float64 COMMENT 'By how much that is exceptional, in standard deviations, about',
    kind LowCardinality(String) COMMENT 'rising: above what is usual; new: never seen before; top: leads by count alone',
    horizon_minutes UInt16 COMMENT 'How many minutes observed and expected are of: 1 or 60',
    entered Nullable(DateTime('UTC')) COMMENT 'Since when it trends; null for those that only lead',
    window DateTime('UTC') COMMENT 'The last minute that is over and scored'
)
AS SELECT
    family, region, rank, counter, observed, expected, score, kind, horizon_minutes, entered, window
FROM tally.trend_rankings
WHERE build = (SELECT build FROM tally.live_builds WHERE cluster = '')
    AND window = (
        SELECT max(window) FROM tally.trend_windows
        WHERE build = (SELECT build FROM tally.live_builds WHERE cluster = '')
    )
ORDER BY family, region, rank
COMMENT 'What trends now, by the last minute that is over; ask with WHERE family = ... AND region = ...';

CREATE OR REPLACE VIEW tally.trending_now
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region LowCardinality(String) COMMENT 'Where; * for all regions together, empty when unknown',
    rank UInt32 COMMENT '1 for the most exceptional; those that only lead come after those that trend',
    counter String COMMENT 'What is counted: family:key',
    observed Int64 COMMENT 'What was counted so far in the minute, or in the hour that ends with it',
    expected Float64 COMMENT 'What was to be expected of it, were it over',
    score Float64 COMMENT 'By how much that is exceptional, in standard deviations, about',
    kind LowCardinality(String) COMMENT 'rising: above what is usual; new: never seen before; top: leads by count alone',
    horizon_minutes UInt16 COMMENT 'How many minutes observed and expected are of: 1 or 60',
    entered Nullable(DateTime('UTC')) COMMENT 'Since when it trends; null for those that only lead',
    window DateTime('UTC') COMMENT 'The minute that is not over'
)
AS SELECT
    family, region, rank, counter, observed, expected, score, kind, horizon_minutes, entered, window
FROM tally.trend_provisional FINAL
WHERE build = (SELECT build FROM tally.live_builds WHERE cluster = '')
    AND (build, scored_at) IN (SELECT build, max(scored_at) FROM tally.trend_open GROUP BY build)
    AND window > (
        SELECT max(window) FROM tally.trend_windows
        WHERE build = (SELECT build FROM tally.live_builds WHERE cluster = '')
    )
ORDER BY family, region, rank
COMMENT 'What trends by the minute that is not over yet: provisional';
