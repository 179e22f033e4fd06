-- What one shard saw of one counter, in one region and minute, during one slot. p and n only grow,
-- and rows of one key merge by max, so writing a cell twice, late or out of order changes nothing.
-- A counter begins with its family, so a family's cells are neighbours, and the least and greatest
-- family of each granule find them; with the family in the key, counters alone would not be found.
CREATE TABLE IF NOT EXISTS tally.cells_1m
(
    build      UInt32 COMMENT 'Which counting of the log this is; views read the one in tally.builds',
    family     LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter    String COMMENT 'What is counted: family:key',
    region     LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window     DateTime('UTC') COMMENT 'The minute it happened in',
    slot       DateTime('UTC') COMMENT 'The minute of log time in which the cell could change',
    replica    LowCardinality(String) COMMENT 'The cluster that counted it',
    shard      UInt32 COMMENT 'The partition that saw it',
    p          SimpleAggregateFunction(max, Int64) COMMENT 'Everything added',
    n          SimpleAggregateFunction(max, Int64) COMMENT 'Everything taken away',
    duplicates SimpleAggregateFunction(max, Int64) COMMENT 'Increments skipped because their id was counted before',
    through    SimpleAggregateFunction(max, Int64) COMMENT 'The last log offset counted in',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toDate(slot))
PRIMARY KEY (build, counter, window)
ORDER BY (build, counter, window, region, slot, replica, shard)
COMMENT 'Cells of one minute. For people: counts_1m, counts_by_region_1m, totals';

-- What the minutes of an hour add up to, per slot day. A sum of numbers that only grow only grows,
-- so it is written as it stands, by anybody, any number of times, and merged by max as well.
CREATE TABLE IF NOT EXISTS tally.cells_1h
(
    build      UInt32 COMMENT 'Which counting of the log this is',
    family     LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter    String COMMENT 'What is counted: family:key',
    region     LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window     DateTime('UTC') COMMENT 'The hour it happened in',
    slot_day   Date COMMENT 'The day of log time in which the cells could change',
    replica    LowCardinality(String) COMMENT 'The cluster that counted it',
    shard      UInt32 COMMENT 'The partition that saw it',
    p          SimpleAggregateFunction(max, Int128) COMMENT 'Everything added',
    n          SimpleAggregateFunction(max, Int128) COMMENT 'Everything taken away',
    duplicates SimpleAggregateFunction(max, Int128) COMMENT 'Increments skipped because their id was counted before',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, slot_day)
PRIMARY KEY (build, counter, window)
ORDER BY (build, counter, window, region, slot_day, replica, shard)
COMMENT 'Minutes rolled up to hours. For people: counts_1h, counts_by_region_1h';

-- Days are kept for ever unless a family says otherwise, so a partition holds a month of them.
CREATE TABLE IF NOT EXISTS tally.cells_1d
(
    build      UInt32 COMMENT 'Which counting of the log this is',
    family     LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter    String COMMENT 'What is counted: family:key',
    region     LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window     DateTime('UTC') COMMENT 'The day it happened in',
    slot_day   Date COMMENT 'The day of log time in which the cells could change',
    replica    LowCardinality(String) COMMENT 'The cluster that counted it',
    shard      UInt32 COMMENT 'The partition that saw it',
    p          SimpleAggregateFunction(max, Int128) COMMENT 'Everything added',
    n          SimpleAggregateFunction(max, Int128) COMMENT 'Everything taken away',
    duplicates SimpleAggregateFunction(max, Int128) COMMENT 'Increments skipped because their id was counted before',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toStartOfMonth(slot_day))
PRIMARY KEY (build, counter, window)
ORDER BY (build, counter, window, region, slot_day, replica, shard)
COMMENT 'Hours rolled up to days. For people: counts_1d, counts_by_region_1d, totals';

-- What the days of a month add up to, written before days that are past their retention go.
CREATE TABLE IF NOT EXISTS tally.cells_life
(
    build      UInt32 COMMENT 'Which counting of the log this is',
    family     LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter    String COMMENT 'What is counted: family:key',
    region     LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    slot_month Date COMMENT 'The first day of the month of log time in which the cells could change',
    replica    LowCardinality(String) COMMENT 'The cluster that counted it',
    shard      UInt32 COMMENT 'The partition that saw it',
    p          SimpleAggregateFunction(max, Int128) COMMENT 'Everything added',
    n          SimpleAggregateFunction(max, Int128) COMMENT 'Everything taken away',
    duplicates SimpleAggregateFunction(max, Int128) COMMENT 'Increments skipped because their id was counted before',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY build
PRIMARY KEY (build, counter)
ORDER BY (build, counter, region, slot_month, replica, shard)
COMMENT 'What totals keep of days that are gone. For people: totals';
