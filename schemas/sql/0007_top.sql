-- A sliding hour and a sliding day: minutes are summed, since the clock's own hour holds one minute
-- when it has just begun. A row may lie at most 5 minutes ahead of its log time and a slot lasts one,
-- so no slot older than 6 minutes before the first minute is needed, and old parts are
-- left alone. What spilled (a counter without a key) is no counter that could lead.

CREATE OR REPLACE VIEW tally.top_last_hour
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region String COMMENT 'Where it happened; * for all regions together, empty when unknown',
    rank UInt64 COMMENT '1 for the greatest; of equal counts the first by name',
    counter String COMMENT 'What is counted: family:key',
    count Int128 COMMENT 'Added less taken away in the last hour, up to now',
    error Int128 COMMENT 'By how much the count may be wrong; 0: these are exact'
)
AS SELECT
    family, region,
    row_number() OVER (PARTITION BY family, region ORDER BY count DESC, counter) AS rank,
    counter, count, 0::Int128 AS error
FROM
(
    SELECT family, '*' AS region, counter, count FROM
    (
        SELECT family, '*' AS region, counter, sum(p) - sum(n) AS count
        FROM tally.adjusted_1m
        WHERE build IN (SELECT build FROM tally.live_builds)
            AND window > now() - INTERVAL 1 HOUR AND slot > now() - INTERVAL 1 HOUR - INTERVAL 6 MINUTE
            AND counter != concat(family, ':')
        GROUP BY family, counter
    )
    UNION ALL
    SELECT family, region, counter, count FROM
    (
        SELECT family, toString(region) AS region, counter, sum(p) - sum(n) AS count
        FROM tally.adjusted_1m
        WHERE build IN (SELECT build FROM tally.live_builds)
            AND window > now() - INTERVAL 1 HOUR AND slot > now() - INTERVAL 1 HOUR - INTERVAL 6 MINUTE
            AND counter != concat(family, ':')
        GROUP BY family, region, counter
    )
)
WHERE count > 0
ORDER BY family, region, rank
COMMENT 'The greatest counters of each family in the last hour; ask with WHERE family = ... AND region = ...';

CREATE OR REPLACE VIEW tally.top_last_day
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region String COMMENT 'Where it happened; * for all regions together, empty when unknown',
    rank UInt64 COMMENT '1 for the greatest; of equal counts the first by name',
    counter String COMMENT 'What is counted: family:key',
    count Int128 COMMENT 'Added less taken away in the last day, up to now',
    error Int128 COMMENT 'By how much the count may be wrong; 0: these are exact'
)
AS SELECT
    family, region,
    row_number() OVER (PARTITION BY family, region ORDER BY count DESC, counter) AS rank,
    counter, count, 0::Int128 AS error
FROM
(
    SELECT family, '*' AS region, counter, count FROM
    (
        SELECT family, '*' AS region, counter, sum(p) - sum(n) AS count
        FROM tally.adjusted_1m
        WHERE build IN (SELECT build FROM tally.live_builds)
            AND window > now() - INTERVAL 1 DAY AND slot > now() - INTERVAL 1 DAY - INTERVAL 6 MINUTE
            AND counter != concat(family, ':')
        GROUP BY family, counter
    )
    UNION ALL
    SELECT family, region, counter, count FROM
    (
        SELECT family, toString(region) AS region, counter, sum(p) - sum(n) AS count
        FROM tally.adjusted_1m
        WHERE build IN (SELECT build FROM tally.live_builds)
            AND window > now() - INTERVAL 1 DAY AND slot > now() - INTERVAL 1 DAY - INTERVAL 6 MINUTE
            AND counter != concat(family, ':')
        GROUP BY family, region, counter
    )
)
WHERE count > 0
ORDER BY family, region, rank
COMMENT 'The greatest counters of each family in the last day; ask with WHERE family = ... AND region = ...';

-- The rankings of whole minutes, hours and days, from the same sums as the counts.

CREATE OR REPLACE VIEW tally.top_by_window_1m
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region String COMMENT 'Where it happened; * for all regions together, empty when unknown',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    rank UInt64 COMMENT '1 for the greatest; of equal counts the first by name',
    counter String COMMENT 'What is counted: family:key',
    count Int128 COMMENT 'Added less taken away in that minute',
    error Int128 COMMENT 'By how much the count may be wrong; 0: these are exact'
)
AS SELECT
    family, region, window,
    row_number() OVER (PARTITION BY family, region, window ORDER BY count DESC, counter) AS rank,
    counter, count, 0::Int128 AS error
FROM
(
    SELECT family, '*' AS region, window, counter, count FROM tally.counts_1m
    UNION ALL
    SELECT family, toString(region), window, counter, count FROM tally.counts_by_region_1m
)
WHERE count > 0 AND counter != concat(family, ':')
ORDER BY family, region, window, rank
COMMENT 'The greatest counters of each family in every minute; ask with WHERE family = ... AND region = ... AND window = ...';

CREATE OR REPLACE VIEW tally.top_by_window_1h
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region String COMMENT 'Where it happened; * for all regions together, empty when unknown',
    window DateTime('UTC') COMMENT 'The hour it happened in',
    rank UInt64 COMMENT '1 for the greatest; of equal counts the first by name',
    counter String COMMENT 'What is counted: family:key',
    count Int128 COMMENT 'Added less taken away in that hour',
    error Int128 COMMENT 'By how much the count may be wrong; 0: these are exact'
)
AS SELECT
    family, region, window,
    row_number() OVER (PARTITION BY family, region, window ORDER BY count DESC, counter) AS rank,
    counter, count, 0::Int128 AS error
FROM
(
    SELECT family, '*' AS region, window, counter, count FROM tally.counts_1h
    UNION ALL
    SELECT family, toString(region), window, counter, count FROM tally.counts_by_region_1h
)
WHERE count > 0 AND counter != concat(family, ':')
ORDER BY family, region, window, rank
COMMENT 'The greatest counters of each family in every hour; ask with WHERE family = ... AND region = ... AND window = ...';

CREATE OR REPLACE VIEW tally.top_by_window_1d
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region String COMMENT 'Where it happened; * for all regions together, empty when unknown',
    window DateTime('UTC') COMMENT 'The day it happened in',
    rank UInt64 COMMENT '1 for the greatest; of equal counts the first by name',
    counter String COMMENT 'What is counted: family:key',
    count Int128 COMMENT 'Added less taken away in that day',
    error Int128 COMMENT 'By how much the count may be wrong; 0: these are exact'
)
AS SELECT
    family, region, window,
    row_number() OVER (PARTITION BY family, region, window ORDER BY count DESC, counter) AS rank,
    counter, count, 0::Int128 AS error
FROM
(
    SELECT family, '*' AS region, window, counter, count FROM tally.counts_1d
    UNION ALL
    SELECT family, toString(region), window, counter, count FROM tally.counts_by_region_1d
)
WHERE count > 0 AND counter != concat(family, ':')
ORDER BY family, region, window, rank
COMMENT 'The greatest counters of each family in every day; ask with WHERE family = ... AND region = ... AND window = ...';

-- A view cannot know whether it is asked for a window, so these have one each: the newest of the
-- family. It is written down with every flush, since finding it among the cells means reading them.
CREATE TABLE IF NOT EXISTS tally.newest_windows
(
    build  UInt32 COMMENT 'Which counting of the log this is',
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    window SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'The latest minute in which anything of the family was counted'
)
ENGINE = AggregatingMergeTree
ORDER BY (build, family)
COMMENT 'The newest minute of each family; what top_1m, top_1h and top_1d show';

CREATE MATERIALIZED VIEW IF NOT EXISTS tally.newest_windows_of_cells TO tally.newest_windows
AS SELECT build, family, max(cells_1m.window) AS window
FROM tally.cells_1m
GROUP BY build, family
COMMENT 'Fills newest_windows from what is flushed';

INSERT INTO tally.newest_windows (build, family, window)
SELECT build, family, max(cells_1m.window) FROM tally.cells_1m GROUP BY build, family;

-- A minute may be a little ahead of the clock; then the clock's own one is the newest.
CREATE OR REPLACE VIEW tally.top_1m
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region String COMMENT 'Where it happened; * for all regions together, empty when unknown',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    rank UInt64 COMMENT '1 for the greatest; of equal counts the first by name',
    counter String COMMENT 'What is counted: family:key',
    count Int128 COMMENT 'Added less taken away in that minute',
    error Int128 COMMENT 'By how much the count may be wrong; 0: these are exact'
)
AS SELECT family, region, window, rank, counter, count, error
FROM tally.top_by_window_1m
WHERE (family, window) IN
(
    SELECT family, toStartOfMinute(least(max(newest_windows.window), now('UTC')))
    FROM tally.newest_windows
    WHERE build IN (SELECT build FROM tally.live_builds)
    GROUP BY family
)
ORDER BY family, region, rank
COMMENT 'The greatest counters of each family in its newest minute; ask with WHERE family = ... AND region = ...';

CREATE OR REPLACE VIEW tally.top_1h
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region String COMMENT 'Where it happened; * for all regions together, empty when unknown',
    window DateTime('UTC') COMMENT 'The hour it happened in',
    rank UInt64 COMMENT '1 for the greatest; of equal counts the first by name',
    counter String COMMENT 'What is counted: family:key',
    count Int128 COMMENT 'Added less taken away in that hour',
    error Int128 COMMENT 'By how much the count may be wrong; 0: these are exact'
)
AS SELECT family, region, window, rank, counter, count, error
FROM tally.top_by_window_1h
WHERE (family, window) IN
(
    SELECT family, toStartOfHour(least(max(newest_windows.window), now('UTC')))
    FROM tally.newest_windows
    WHERE build IN (SELECT build FROM tally.live_builds)
    GROUP BY family
)
ORDER BY family, region, rank
COMMENT 'The greatest counters of each family in its newest hour; ask with WHERE family = ... AND region = ...';

CREATE OR REPLACE VIEW tally.top_1d
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    region String COMMENT 'Where it happened; * for all regions together, empty when unknown',
    window DateTime('UTC') COMMENT 'The day it happened in',
    rank UInt64 COMMENT '1 for the greatest; of equal counts the first by name',
    counter String COMMENT 'What is counted: family:key',
    count Int128 COMMENT 'Added less taken away in that day',
    error Int128 COMMENT 'By how much the count may be wrong; 0: these are exact'
)
AS SELECT family, region, window, rank, counter, count, error
FROM tally.top_by_window_1d
WHERE (family, window) IN
(
    SELECT family, toStartOfDay(least(max(newest_windows.window), now('UTC')))
    FROM tally.newest_windows
    WHERE build IN (SELECT build FROM tally.live_builds)
    GROUP BY family
)
ORDER BY family, region, rank
COMMENT 'The greatest counters of each family in its newest day; ask with WHERE family = ... AND region = ...';
