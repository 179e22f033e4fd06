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
        FROM tally.merged_1m
        WHERE build = (SELECT argMax(build, declaration) FROM tally.builds)
            AND window > now() - INTERVAL 1 HOUR AND slot > now() - INTERVAL 1 HOUR - INTERVAL 6 MINUTE
            AND counter != concat(family, ':')
        GROUP BY family, counter
    )
    UNION ALL
    SELECT family, region, counter, count FROM
    (
        SELECT family, toString(region) AS region, counter, sum(p) - sum(n) AS count
        FROM tally.merged_1m
        WHERE build = (SELECT argMax(build, declaration) FROM tally.builds)
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
        FROM tally.merged_1m
        WHERE build = (SELECT argMax(build, declaration) FROM tally.builds)
            AND window > now() - INTERVAL 1 DAY AND slot > now() - INTERVAL 1 DAY - INTERVAL 6 MINUTE
            AND counter != concat(family, ':')
        GROUP BY family, counter
    )
    UNION ALL
    SELECT family, region, counter, count FROM
    (
        SELECT family, toString(region) AS region, counter, sum(p) - sum(n) AS count
        FROM tally.merged_1m
        WHERE build = (SELECT argMax(build, declaration) FROM tally.builds)
            AND window > now() - INTERVAL 1 DAY AND slot > now() - INTERVAL 1 DAY - INTERVAL 6 MINUTE
            AND counter != concat(family, ':')
        GROUP BY family, region, counter
    )
)
WHERE count > 0
ORDER BY family, region, rank
COMMENT 'The greatest counters of each family in the last day; ask with WHERE family = ... AND region = ...';
