-- Strict counters, as their deciders flush them about every second. What they are is in the log's changelog; this is for
-- reading. A row of a decider that was replaced has a smaller `through`, and equal ones have equal values.
CREATE TABLE IF NOT EXISTS tally.strict_values
(
    counter  String COMMENT 'The counter: family:key',
    shard    UInt32 COMMENT 'The partition of tally.strict that decides it',
    value    Int64 COMMENT 'Everything added and acquired less everything taken away',
    through  Int64 COMMENT 'The last offset that was decided of it; the greatest holds',
    log_time DateTime64(3, 'UTC') COMMENT 'Log time at that offset'
)
ENGINE = ReplacingMergeTree(through)
ORDER BY counter
COMMENT 'Values of strict counters; read them by the view strict_totals';

CREATE TABLE IF NOT EXISTS tally.strict_flushes
(
    shard      UInt32 COMMENT 'A partition of tally.strict',
    flushed_at DateTime64(3, 'UTC') COMMENT 'What was decided before this moment is in strict_values'
)
ENGINE = ReplacingMergeTree(flushed_at)
ORDER BY shard
COMMENT 'When each partition of strict counters was flushed last';

CREATE OR REPLACE VIEW tally.strict_totals
(
    counter String COMMENT 'The counter: family:key',
    value Int64 COMMENT 'Everything added and acquired less everything taken away',
    log_time DateTime64(3, 'UTC') COMMENT 'Log time of its last command'
)
AS SELECT counter, newest.1 AS value, newest.2 AS log_time
FROM (
    SELECT counter, argMax((strict_values.value, strict_values.log_time), through) AS newest
    FROM tally.strict_values GROUP BY counter
)
COMMENT 'Values of strict counters, as of the last flush';
