-- Which dead letters are in the log again or, cells, in their table. Written after that is confirmed. What a retry counts is
-- decided by the log alone, and cells are absolute: a row that is missing here makes somebody do again what changes nothing.
CREATE TABLE IF NOT EXISTS tally.retries
(
    shard      UInt32 COMMENT 'The partition it was refused in',
    offset     Int64 COMMENT 'The refused record; of a cell the last one that is counted in',
    row        Int32 COMMENT 'The row of the record, if it was a frame; below 0 for a cell; else 0',
    log_time   DateTime64(3, 'UTC') COMMENT 'The log''s time of the refused record; of a cell its slot',
    retried_at DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever retried it'
)
ENGINE = ReplacingMergeTree(retried_at)
ORDER BY (shard, offset, row, log_time)
COMMENT 'Dead letters that were sent again, or inserted';
