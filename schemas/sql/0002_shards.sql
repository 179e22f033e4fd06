-- How far each shard is: a row is written after the cells it speaks of are confirmed.
CREATE TABLE IF NOT EXISTS tally.positions
(
    build              UInt32 COMMENT 'Which counting of the log this is',
    replica            LowCardinality(String) COMMENT 'The cluster that counts',
    shard              UInt32 COMMENT 'The partition',
    flushed_through    SimpleAggregateFunction(max, Int64) COMMENT 'Last offset whose count is here; -1 for none',
    log_time           SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Log time there',
    flushed_at         SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When it was flushed, by the worker''s clock',
    checkpoint_through SimpleAggregateFunction(max, Int64) COMMENT 'Last offset a restart will not read again; -1 for none',
    checkpointed_at    SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the last checkpoint was confirmed, by the worker''s clock',
    rules_version      SimpleAggregateFunction(max, UInt64) COMMENT 'Version of the counting rules that held there'
)
ENGINE = AggregatingMergeTree
ORDER BY (build, replica, shard)
COMMENT 'How far each shard is flushed and checkpointed';

-- Why a worker would not count a shard on; of interest while it is newer than the shard's checkpoint.
CREATE TABLE IF NOT EXISTS tally.refusals
(
    build      UInt32 COMMENT 'Which counting of the log this is',
    shard      UInt32 COMMENT 'The partition',
    refused_at DateTime64(3, 'UTC') COMMENT 'When, by the worker''s clock',
    reason     String COMMENT 'Why, and what to do'
)
ENGINE = ReplacingMergeTree(refused_at)
ORDER BY (build, shard)
COMMENT 'Why shards are not counted on';

-- The letters themselves are in the topic tally.dead-letters; this is for finding and counting them. A log that was
-- made anew has the same places again, so the log's time is a part of the key.
CREATE TABLE IF NOT EXISTS tally.dead_letters
(
    build    UInt32 COMMENT 'Which counting of the log refused it',
    shard    UInt32 COMMENT 'The partition it is in',
    offset   Int64 COMMENT 'The record''s offset there',
    row      Int32 COMMENT 'The row in its frame; 0 for a record of its own',
    log_time DateTime64(3, 'UTC') COMMENT 'Log time there',
    reason   String COMMENT 'Why it is not counted',
    bytes    UInt64 COMMENT 'How large it is',
    sample   String COMMENT 'The first bytes of it as text'
)
ENGINE = ReplacingMergeTree
PARTITION BY (build, toDate(log_time))
ORDER BY (build, shard, offset, row, log_time)
COMMENT 'Refused records: where they are in the log, and why they are not counted';

-- Telemetry, no counts: what is lost here is missed by nobody.
CREATE TABLE IF NOT EXISTS tally.freshness
(
    build        UInt32 COMMENT 'Which counting of the log this is',
    shard        UInt32 COMMENT 'The partition',
    at           DateTime64(3, 'UTC') COMMENT 'When the flush that holds the heartbeat was confirmed',
    freshness_ms UInt32 COMMENT 'How long that was after the heartbeat was sent'
)
ENGINE = MergeTree
ORDER BY (build, at)
TTL toDateTime(at) + INTERVAL 1 DAY
COMMENT 'How long heartbeats take from being sent to being counted, of the last day';
