-- How long ago each family was rolled up, for people and alarms; nothing is decided by it.
CREATE TABLE IF NOT EXISTS tally.rollups
(
    build        UInt32 COMMENT 'Which counting of the log this is',
    family       LowCardinality(String) COMMENT 'The family; empty for counters that spilled without one',
    grain        LowCardinality(String) COMMENT 'What was rolled up to: 1h or 1d',
    rolled_up_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the last rollup of the family was confirmed, by ClickHouse''s clock'
)
ENGINE = AggregatingMergeTree
ORDER BY (build, family, grain)
COMMENT 'When each family was last rolled up';

-- A row is written after everything that was flushed at that log time is confirmed in hours and days.
CREATE TABLE IF NOT EXISTS tally.rolled_shards
(
    build    UInt32 COMMENT 'Which counting of the log this is',
    replica  LowCardinality(String) COMMENT 'The cluster that counts',
    shard    UInt32 COMMENT 'The partition',
    log_time SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Slots that were over then are rolled up for good'
)
ENGINE = AggregatingMergeTree
ORDER BY (build, replica, shard)
COMMENT 'Up to which log time each shard is rolled up';

-- A day is final when every partition that Kafka reports was rolled up past it. When partitions are
-- added, it has to become so anew, with all of them: hence their number is a part of the key.
CREATE TABLE IF NOT EXISTS tally.final_days
(
    build        UInt32 COMMENT 'Which counting of the log this is',
    grain        LowCardinality(String) COMMENT 'What holds it for good: 1d (and so 1h), or life for a month',
    slot_day     Date COMMENT 'The day of log time, or the first day of the month',
    partitions   UInt32 COMMENT 'How many partitions Kafka reported',
    confirmed_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'When that was known first, by ClickHouse''s clock'
)
ENGINE = AggregatingMergeTree
ORDER BY (build, grain, slot_day, partitions)
COMMENT 'Which days of log time are rolled up for good';

-- Remembers deletions that ClickHouse has taken on, so that each is asked for once.
CREATE TABLE IF NOT EXISTS tally.expired_days
(
    build      UInt32 COMMENT 'Which counting of the log this is',
    grain      LowCardinality(String) COMMENT 'The grain whose cells are deleted: 1m, 1h or 1d',
    slot_day   Date COMMENT 'The day of log time, or the first day of the month for 1d',
    families   String COMMENT 'Of which families, as a condition',
    partitions UInt32 COMMENT 'How many partitions Kafka reported',
    deleted_at DateTime64(3, 'UTC') COMMENT 'When it was asked for, by ClickHouse''s clock'
)
ENGINE = ReplacingMergeTree(deleted_at)
ORDER BY (build, grain, slot_day, families, partitions)
COMMENT 'Days of families whose retention is over, and which are deleted';
