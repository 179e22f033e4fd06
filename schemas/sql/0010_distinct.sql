-- Who was there: HyperLogLog registers of the members that additions named. Registers are a function of
-- the set of members and merge by max, so neither shard nor replica nor slot is in the key: writing some
-- twice, late, out of order or from two places changes nothing. A family whose error was changed has rows
-- of two precisions.
CREATE TABLE IF NOT EXISTS tally.distinct_1m
(
    build     UInt32 COMMENT 'Which counting of the log this is; views read the one in tally.builds',
    family    LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter   String COMMENT 'What is counted: family:key',
    region    LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window    DateTime('UTC') COMMENT 'The minute it happened in',
    precision UInt8 COMMENT 'The binary logarithm of the number of registers',
    slot_day  Date COMMENT 'The day of log time in which the registers could rise',
    registers SimpleAggregateFunction(maxMap, Map(UInt16, UInt8)) COMMENT 'HyperLogLog: the greatest rank of each register that a member hit',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, slot_day)
PRIMARY KEY (build, counter, window)
ORDER BY (build, counter, window, region, precision, slot_day)
COMMENT 'Who was there in each minute, as registers. For people: uniques_1m, uniques_by_region_1m';

CREATE TABLE IF NOT EXISTS tally.distinct_1h
(
    build     UInt32 COMMENT 'Which counting of the log this is; views read the one in tally.builds',
    family    LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter   String COMMENT 'What is counted: family:key',
    region    LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window    DateTime('UTC') COMMENT 'The hour it happened in',
    precision UInt8 COMMENT 'The binary logarithm of the number of registers',
    slot_day  Date COMMENT 'The day of log time in which the registers could rise',
    registers SimpleAggregateFunction(maxMap, Map(UInt16, UInt8)) COMMENT 'HyperLogLog: the greatest rank of each register that a member hit',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, slot_day)
PRIMARY KEY (build, counter, window)
ORDER BY (build, counter, window, region, precision, slot_day)
COMMENT 'Who was there in each hour, as registers. For people: uniques_1h, uniques_by_region_1h';

-- Days are kept for ever unless a family says otherwise, so a partition holds a month of them.
CREATE TABLE IF NOT EXISTS tally.distinct_1d
(
    build     UInt32 COMMENT 'Which counting of the log this is; views read the one in tally.builds',
    family    LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter   String COMMENT 'What is counted: family:key',
    region    LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window    DateTime('UTC') COMMENT 'The day it happened in',
    precision UInt8 COMMENT 'The binary logarithm of the number of registers',
    slot_day  Date COMMENT 'The day of log time in which the registers could rise',
    registers SimpleAggregateFunction(maxMap, Map(UInt16, UInt8)) COMMENT 'HyperLogLog: the greatest rank of each register that a member hit',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toStartOfMonth(slot_day))
PRIMARY KEY (build, counter, window)
ORDER BY (build, counter, window, region, precision, slot_day)
COMMENT 'Who was there in each day, as registers. For people: uniques_1d, uniques_by_region_1d';

-- Rows of one precision are united as they are; where there are several, they are folded to the least of
-- them first. The functions are those of sketches/sql.py, put in when a view is made.
CREATE OR REPLACE VIEW tally.uniques_by_region_1m
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    region LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    uniques UInt64 COMMENT 'About how many different members there were in that minute',
    low UInt64 COMMENT 'At least so many, with a confidence of 95 %',
    high UInt64 COMMENT 'At most so many, with a confidence of 95 %'
)
AS SELECT
    family, counter, region, window,
    greatest(tallyWhole(estimate), low) AS uniques,
    tallyWhole(tallyDistinctLow(estimate, united, least)) AS low,
    tallyWhole(tallyDistinctHigh(estimate, united, least)) AS high
FROM
(
    SELECT family, counter, region, window, least, united, tallyDistinct(united, least) AS estimate
    FROM
    (
        SELECT
            family, counter, region, window, min(precision) AS least,
            if(least = max(precision), maxMap(alike), arrayReduce('maxMap', arrayMap(
                part -> tallyFold(part.2, part.1, least), groupArray((precision, alike))))) AS united
        FROM
        (
            SELECT family, counter, region, window, precision, maxMap(registers) AS alike
            FROM tally.distinct_1m
            WHERE build IN (SELECT build FROM tally.live_builds)
            GROUP BY family, counter, region, window, precision
        )
        GROUP BY family, counter, region, window
    )
)
COMMENT 'Distinct members per region and minute';

CREATE OR REPLACE VIEW tally.uniques_1m
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    uniques UInt64 COMMENT 'About how many different members there were in that minute',
    low UInt64 COMMENT 'At least so many, with a confidence of 95 %',
    high UInt64 COMMENT 'At most so many, with a confidence of 95 %'
)
AS SELECT
    family, counter, window,
    greatest(tallyWhole(estimate), low) AS uniques,
    tallyWhole(tallyDistinctLow(estimate, united, least)) AS low,
    tallyWhole(tallyDistinctHigh(estimate, united, least)) AS high
FROM
(
    SELECT family, counter, window, least, united, tallyDistinct(united, least) AS estimate
    FROM
    (
        SELECT
            family, counter, window, min(precision) AS least,
            if(least = max(precision), maxMap(alike), arrayReduce('maxMap', arrayMap(
                part -> tallyFold(part.2, part.1, least), groupArray((precision, alike))))) AS united
        FROM
        (
            SELECT family, counter, window, precision, maxMap(registers) AS alike
            FROM tally.distinct_1m
            WHERE build IN (SELECT build FROM tally.live_builds)
            GROUP BY family, counter, window, precision
        )
        GROUP BY family, counter, window
    )
)
COMMENT 'Distinct members per minute, all regions together';

CREATE OR REPLACE VIEW tally.uniques_by_region_1h
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    region LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window DateTime('UTC') COMMENT 'The hour it happened in',
    uniques UInt64 COMMENT 'About how many different members there were in that hour',
    low UInt64 COMMENT 'At least so many, with a confidence of 95 %',
    high UInt64 COMMENT 'At most so many, with a confidence of 95 %'
)
AS SELECT
    family, counter, region, window,
    greatest(tallyWhole(estimate), low) AS uniques,
    tallyWhole(tallyDistinctLow(estimate, united, least)) AS low,
    tallyWhole(tallyDistinctHigh(estimate, united, least)) AS high
FROM
(
    SELECT family, counter, region, window, least, united, tallyDistinct(united, least) AS estimate
    FROM
    (
        SELECT
            family, counter, region, window, min(precision) AS least,
            if(least = max(precision), maxMap(alike), arrayReduce('maxMap', arrayMap(
                part -> tallyFold(part.2, part.1, least), groupArray((precision, alike))))) AS united
        FROM
        (
            SELECT family, counter, region, window, precision, maxMap(registers) AS alike
            FROM tally.distinct_1h
            WHERE build IN (SELECT build FROM tally.live_builds)
            GROUP BY family, counter, region, window, precision
        )
        GROUP BY family, counter, region, window
    )
)
COMMENT 'Distinct members per region and hour';

CREATE OR REPLACE VIEW tally.uniques_1h
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    window DateTime('UTC') COMMENT 'The hour it happened in',
    uniques UInt64 COMMENT 'About how many different members there were in that hour',
    low UInt64 COMMENT 'At least so many, with a confidence of 95 %',
    high UInt64 COMMENT 'At most so many, with a confidence of 95 %'
)
AS SELECT
    family, counter, window,
    greatest(tallyWhole(estimate), low) AS uniques,
    tallyWhole(tallyDistinctLow(estimate, united, least)) AS low,
    tallyWhole(tallyDistinctHigh(estimate, united, least)) AS high
FROM
(
    SELECT family, counter, window, least, united, tallyDistinct(united, least) AS estimate
    FROM
    (
        SELECT
            family, counter, window, min(precision) AS least,
            if(least = max(precision), maxMap(alike), arrayReduce('maxMap', arrayMap(
                part -> tallyFold(part.2, part.1, least), groupArray((precision, alike))))) AS united
        FROM
        (
            SELECT family, counter, window, precision, maxMap(registers) AS alike
            FROM tally.distinct_1h
            WHERE build IN (SELECT build FROM tally.live_builds)
            GROUP BY family, counter, window, precision
        )
        GROUP BY family, counter, window
    )
)
COMMENT 'Distinct members per hour, all regions together';

CREATE OR REPLACE VIEW tally.uniques_by_region_1d
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    region LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window DateTime('UTC') COMMENT 'The day it happened in',
    uniques UInt64 COMMENT 'About how many different members there were in that day',
    low UInt64 COMMENT 'At least so many, with a confidence of 95 %',
    high UInt64 COMMENT 'At most so many, with a confidence of 95 %'
)
AS SELECT
    family, counter, region, window,
    greatest(tallyWhole(estimate), low) AS uniques,
    tallyWhole(tallyDistinctLow(estimate, united, least)) AS low,
    tallyWhole(tallyDistinctHigh(estimate, united, least)) AS high
FROM
(
    SELECT family, counter, region, window, least, united, tallyDistinct(united, least) AS estimate
    FROM
    (
        SELECT
            family, counter, region, window, min(precision) AS least,
            if(least = max(precision), maxMap(alike), arrayReduce('maxMap', arrayMap(
                part -> tallyFold(part.2, part.1, least), groupArray((precision, alike))))) AS united
        FROM
        (
            SELECT family, counter, region, window, precision, maxMap(registers) AS alike
            FROM tally.distinct_1d
            WHERE build IN (SELECT build FROM tally.live_builds)
            GROUP BY family, counter, region, window, precision
        )
        GROUP BY family, counter, region, window
    )
)
COMMENT 'Distinct members per region and day';

CREATE OR REPLACE VIEW tally.uniques_1d
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    window DateTime('UTC') COMMENT 'The day it happened in',
    uniques UInt64 COMMENT 'About how many different members there were in that day',
    low UInt64 COMMENT 'At least so many, with a confidence of 95 %',
    high UInt64 COMMENT 'At most so many, with a confidence of 95 %'
)
AS SELECT
    family, counter, window,
    greatest(tallyWhole(estimate), low) AS uniques,
    tallyWhole(tallyDistinctLow(estimate, united, least)) AS low,
    tallyWhole(tallyDistinctHigh(estimate, united, least)) AS high
FROM
(
    SELECT family, counter, window, least, united, tallyDistinct(united, least) AS estimate
    FROM
    (
        SELECT
            family, counter, window, min(precision) AS least,
            if(least = max(precision), maxMap(alike), arrayReduce('maxMap', arrayMap(
                part -> tallyFold(part.2, part.1, least), groupArray((precision, alike))))) AS united
        FROM
        (
            SELECT family, counter, window, precision, maxMap(registers) AS alike
            FROM tally.distinct_1d
            WHERE build IN (SELECT build FROM tally.live_builds)
            GROUP BY family, counter, window, precision
        )
        GROUP BY family, counter, window
    )
)
COMMENT 'Distinct members per day, all regions together';
