-- Which rows that were set aside are in the tables of which build: another build lacks them until they are put back there, too.
-- Those that were put back before this table was there are in tally.retries, for all builds.
CREATE TABLE IF NOT EXISTS tally.put_back
(
    build       UInt32 COMMENT 'Whose tables have it now',
    shard       UInt32 COMMENT 'The partition it was counted in',
    offset      Int64 COMMENT 'The last record that is counted in it',
    row         Int32 COMMENT 'Below 0, by its table',
    log_time    DateTime64(3, 'UTC') COMMENT 'Its slot',
    put_back_at DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever did it'
)
ENGINE = ReplacingMergeTree(put_back_at)
ORDER BY (build, shard, offset, row, log_time)
COMMENT 'Rows that were set aside as dead letters, and inserted';
