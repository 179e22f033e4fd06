-- Counters without cells of their own, of sketched families and of what a flood spilled: Count-Min, bucket by
-- bucket. p and n only grow, and rows of one key merge by max, as cells do. A sketch has six rows of `width` buckets;
-- an estimate is the least over the rows, after shards, slots, windows and regions are added up. What came more than
-- ten minutes late, by log time, is in the first minute of its hour, more than two days late of its day.
CREATE TABLE IF NOT EXISTS tally.frequency_1m
(
    build   UInt32 COMMENT 'Which counting of the log this is',
    family  LowCardinality(String) COMMENT 'The family; empty for all that no rule names',
    width   UInt32 COMMENT 'How many buckets a row of the sketch has',
    bucket  UInt32 COMMENT 'row * width + column, as tallyBuckets(counter, width, 6) has them',
    window  DateTime('UTC') COMMENT 'The minute it happened in; the first of its hour or day for what came late',
    region  LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    slot    DateTime('UTC') COMMENT 'The minute of log time in which the sketch could change',
    replica LowCardinality(String) COMMENT 'The cluster that counted it',
    shard   UInt32 COMMENT 'The partition that saw it',
    p       SimpleAggregateFunction(max, Int64) COMMENT 'Everything added to the counters of the bucket',
    n       SimpleAggregateFunction(max, Int64) COMMENT 'Everything taken away from them'
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toDate(slot))
ORDER BY (build, family, width, bucket, window, region, slot, replica, shard)
COMMENT 'Sketches of one minute. For people: tally count, tally top';

CREATE TABLE IF NOT EXISTS tally.frequency_1h
(
    build    UInt32 COMMENT 'Which counting of the log this is',
    family   LowCardinality(String) COMMENT 'The family; empty for all that no rule names',
    width    UInt32 COMMENT 'How many buckets a row of the sketch has',
    bucket   UInt32 COMMENT 'row * width + column, as tallyBuckets(counter, width, 6) has them',
    window   DateTime('UTC') COMMENT 'The hour it happened in; the first of its day for what came more than two days late',
    region   LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    slot_day Date COMMENT 'The day of log time in which the sketch could change',
    replica  LowCardinality(String) COMMENT 'The cluster that counted it',
    shard    UInt32 COMMENT 'The partition that saw it',
    p        SimpleAggregateFunction(max, Int128) COMMENT 'Everything added to the counters of the bucket',
    n        SimpleAggregateFunction(max, Int128) COMMENT 'Everything taken away from them'
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, slot_day)
ORDER BY (build, family, width, bucket, window, region, slot_day, replica, shard)
COMMENT 'Sketches of minutes rolled up to hours';

CREATE TABLE IF NOT EXISTS tally.frequency_1d
(
    build    UInt32 COMMENT 'Which counting of the log this is',
    family   LowCardinality(String) COMMENT 'The family; empty for all that no rule names',
    width    UInt32 COMMENT 'How many buckets a row of the sketch has',
    bucket   UInt32 COMMENT 'row * width + column, as tallyBuckets(counter, width, 6) has them',
    window   DateTime('UTC') COMMENT 'The day it happened in',
    region   LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    slot_day Date COMMENT 'The day of log time in which the sketch could change',
    replica  LowCardinality(String) COMMENT 'The cluster that counted it',
    shard    UInt32 COMMENT 'The partition that saw it',
    p        SimpleAggregateFunction(max, Int128) COMMENT 'Everything added to the counters of the bucket',
    n        SimpleAggregateFunction(max, Int128) COMMENT 'Everything taken away from them'
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toStartOfMonth(slot_day))
ORDER BY (build, family, width, bucket, window, region, slot_day, replica, shard)
COMMENT 'Sketches of hours rolled up to days';

CREATE TABLE IF NOT EXISTS tally.frequency_life
(
    build      UInt32 COMMENT 'Which counting of the log this is',
    family     LowCardinality(String) COMMENT 'The family; empty for all that no rule names',
    width      UInt32 COMMENT 'How many buckets a row of the sketch has',
    bucket     UInt32 COMMENT 'row * width + column, as tallyBuckets(counter, width, 6) has them',
    region     LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    slot_month Date COMMENT 'The first day of the month of log time in which the sketch could change',
    replica    LowCardinality(String) COMMENT 'The cluster that counted it',
    shard      UInt32 COMMENT 'The partition that saw it',
    p          SimpleAggregateFunction(max, Int128) COMMENT 'Everything added to the counters of the bucket',
    n          SimpleAggregateFunction(max, Int128) COMMENT 'Everything taken away from them'
)
ENGINE = AggregatingMergeTree
PARTITION BY build
ORDER BY (build, family, width, bucket, region, slot_month, replica, shard)
COMMENT 'What totals keep of sketches whose days are gone';

-- Which sketches there are is asked with every count, so it is written down with every flush.
CREATE TABLE IF NOT EXISTS tally.frequency_widths
(
    build  UInt32 COMMENT 'Which counting of the log this is',
    family LowCardinality(String) COMMENT 'The family; empty for all that no rule names',
    width  UInt32 COMMENT 'How many buckets a row of the sketch has; another one after the error was changed',
    first  SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'The first minute that such a sketch has',
    last   SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'The last minute that such a sketch has'
)
ENGINE = AggregatingMergeTree
ORDER BY (build, family, width)
COMMENT 'Which sketches there are, and from when to when';

CREATE MATERIALIZED VIEW IF NOT EXISTS tally.frequency_widths_of_minutes TO tally.frequency_widths
AS SELECT build, family, width, min(frequency_1m.window) AS first, max(frequency_1m.window) AS last
FROM tally.frequency_1m
GROUP BY build, family, width
COMMENT 'Fills frequency_widths from what is flushed';

INSERT INTO tally.frequency_widths (build, family, width, first, last)
SELECT build, family, width, min(frequency_1m.window), max(frequency_1m.window)
FROM tally.frequency_1m GROUP BY build, family, width;

-- The names a sketch cannot tell: the counters that were added to the most in a slot, as one shard knows them.
CREATE TABLE IF NOT EXISTS tally.heavy_1m
(
    build    UInt32 COMMENT 'Which counting of the log this is',
    family   LowCardinality(String) COMMENT 'The family; empty for all that no rule names',
    region   LowCardinality(String) COMMENT 'Where it happened; * for all regions together',
    slot     DateTime('UTC') COMMENT 'The minute of log time in which they were added to',
    replica  LowCardinality(String) COMMENT 'The cluster that counted it',
    shard    UInt32 COMMENT 'The partition that saw it',
    through  Int64 COMMENT 'The last log offset counted in; the row with the greatest holds',
    counters Array(String) COMMENT 'The greatest first',
    counts   Array(Int64) COMMENT 'At least so much was added to each, certainly',
    lost     Int64 COMMENT 'No counter with more additions than this is missing'
)
ENGINE = ReplacingMergeTree(through)
PARTITION BY (build, toDate(slot))
ORDER BY (build, family, region, slot, replica, shard)
COMMENT 'Which counters of sketches may lead, minute by minute of log time';

-- Candidates, not counts: a weight only says whom to estimate.
CREATE TABLE IF NOT EXISTS tally.heavy_1h
(
    build   UInt32 COMMENT 'Which counting of the log this is',
    family  LowCardinality(String) COMMENT 'The family; empty for all that no rule names',
    region  LowCardinality(String) COMMENT 'Where it happened; * for all regions together',
    window  DateTime('UTC') COMMENT 'The hour of log time in which it was added to',
    counter String COMMENT 'What is counted: family:key',
    weight  SimpleAggregateFunction(max, Int128) COMMENT 'How much is known to have been added; to choose by, not to show'
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toDate(window))
ORDER BY (build, family, region, window, counter)
COMMENT 'Which counters of sketches may lead, hour by hour of log time';

CREATE TABLE IF NOT EXISTS tally.heavy_1d
(
    build   UInt32 COMMENT 'Which counting of the log this is',
    family  LowCardinality(String) COMMENT 'The family; empty for all that no rule names',
    region  LowCardinality(String) COMMENT 'Where it happened; * for all regions together',
    window  DateTime('UTC') COMMENT 'The day of log time in which it was added to',
    counter String COMMENT 'What is counted: family:key',
    weight  SimpleAggregateFunction(max, Int128) COMMENT 'How much is known to have been added; to choose by, not to show'
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toStartOfMonth(window))
ORDER BY (build, family, region, window, counter)
COMMENT 'Which counters of sketches may lead, day by day of log time';

-- The greater of what was rolled up and what finer windows add up to, as the views of cells have it.
CREATE OR REPLACE VIEW tally.merged_frequency_1m
AS SELECT
    build, family, width, bucket, window, region, slot, toDate(slot) AS slot_day, replica, shard,
    max(frequency_1m.p)::Int128 AS p, max(frequency_1m.n)::Int128 AS n
FROM tally.frequency_1m
GROUP BY build, family, width, bucket, window, region, slot, replica, shard
COMMENT 'Sketches of minutes, one row per bucket';

CREATE OR REPLACE VIEW tally.merged_frequency_1h
AS SELECT
    build, family, width, bucket, window, region, slot_day, replica, shard, max(p) AS p, max(n) AS n
FROM
(
    SELECT build, family, width, bucket, window, region, slot_day, replica, shard, p, n
    FROM tally.frequency_1h
    UNION ALL
    SELECT
        build, family, width, bucket, toStartOfHour(window) AS window, region, slot_day, replica, shard,
        sum(p) AS p, sum(n) AS n
    FROM tally.merged_frequency_1m
    GROUP BY build, family, width, bucket, window, region, slot_day, replica, shard
)
GROUP BY build, family, width, bucket, window, region, slot_day, replica, shard
COMMENT 'Sketches of hours, one row per bucket, rolled up or not';

CREATE OR REPLACE VIEW tally.merged_frequency_1d
AS SELECT
    build, family, width, bucket, window, region, slot_day, replica, shard, max(p) AS p, max(n) AS n
FROM
(
    SELECT build, family, width, bucket, window, region, slot_day, replica, shard, p, n
    FROM tally.frequency_1d
    UNION ALL
    SELECT
        build, family, width, bucket, toStartOfDay(window) AS window, region, slot_day, replica, shard,
        sum(p) AS p, sum(n) AS n
    FROM tally.merged_frequency_1h
    GROUP BY build, family, width, bucket, window, region, slot_day, replica, shard
)
GROUP BY build, family, width, bucket, window, region, slot_day, replica, shard
COMMENT 'Sketches of days, one row per bucket, rolled up or not';

CREATE OR REPLACE VIEW tally.merged_frequency_life
AS SELECT
    build, family, width, bucket, region, slot_month, replica, shard, max(p) AS p, max(n) AS n
FROM
(
    SELECT build, family, width, bucket, region, slot_month, replica, shard, p, n
    FROM tally.frequency_life
    UNION ALL
    SELECT
        build, family, width, bucket, region, toStartOfMonth(slot_day) AS slot_month, replica, shard,
        sum(p) AS p, sum(n) AS n
    FROM tally.merged_frequency_1d
    GROUP BY build, family, width, bucket, region, slot_month, replica, shard
)
GROUP BY build, family, width, bucket, region, slot_month, replica, shard
COMMENT 'Sketches of months of log time, one row per bucket, whether or not their days are still there';
