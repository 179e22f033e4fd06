-- What one shard saw of one counter, in one region and minute, during one slot. p and n only grow,
-- and rows of one key merge by max, so writing a cell twice, late or out of order changes nothing.
CREATE TABLE IF NOT EXISTS tally.cells_1m
(
    build   UInt32 COMMENT 'Which counting of the log this is; views read the one in tally.builds',
    counter String COMMENT 'What is counted: family:key',
    region  LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window  DateTime('UTC') COMMENT 'The minute it happened in',
    slot    DateTime('UTC') COMMENT 'The ten minutes of log time in which the cell could change',
    replica LowCardinality(String) COMMENT 'The cluster that counted it',
    shard   UInt32 COMMENT 'The partition that saw it',
    p       SimpleAggregateFunction(max, Int64) COMMENT 'Everything added',
    n       SimpleAggregateFunction(max, Int64) COMMENT 'Everything taken away',
    through SimpleAggregateFunction(max, Int64) COMMENT 'The last log offset counted in'
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toDate(slot))
ORDER BY (build, counter, window, region, slot, replica, shard)
COMMENT 'Cells of one minute. For people: counts_1m, counts_by_region_1m, totals';

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
    checkpointed_at    SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the last checkpoint was confirmed, by the worker''s clock'
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

-- The greatest declaration, not the greatest number, is the build that views read.
CREATE TABLE IF NOT EXISTS tally.builds
(
    build       UInt32 COMMENT 'A counting of the log that was declared good',
    declaration UInt64 COMMENT 'Which declaration this is; the greatest one rules',
    declared_at DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever declared it',
    note        String COMMENT 'By whom and why'
)
ENGINE = ReplacingMergeTree
ORDER BY declaration
COMMENT 'Which build the views read';

INSERT INTO tally.builds SELECT 1, 1, now64(3), 'the first build'
WHERE NOT EXISTS (SELECT 1 FROM tally.builds);
