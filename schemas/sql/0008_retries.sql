-- Which dead letters are in the log again. Written after Kafka has confirmed; what a retry counts is decided by the log
-- alone, so a row that is missing here makes somebody send a letter that workers then skip.
CREATE TABLE IF NOT EXISTS tally.retries
(
    shard      UInt32 COMMENT 'The partition that refused it, and that has it again',
    offset     Int64 COMMENT 'The refused record',
    row        Int32 COMMENT 'The row of the record, if it was a frame; else 0',
    log_time   DateTime64(3, 'UTC') COMMENT 'The log''s time of the refused record',
    retried_at DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever retried it'
)
ENGINE = ReplacingMergeTree(retried_at)
ORDER BY (shard, offset, row, log_time)
COMMENT 'Dead letters that were sent again';
