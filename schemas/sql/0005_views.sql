-- What cells hold, whether or not parts are merged: the greatest of each key.
CREATE OR REPLACE VIEW tally.merged_1m
AS SELECT
    build, family, counter, region, window, slot, toDate(slot) AS slot_day, replica, shard,
    max(cells_1m.p)::Int128 AS p, max(cells_1m.n)::Int128 AS n, max(cells_1m.duplicates)::Int128 AS duplicates
FROM tally.cells_1m
GROUP BY build, family, counter, region, window, slot, replica, shard
COMMENT 'Minutes, one row per cell. For people: counts_1m';

-- The greater of what was rolled up and what the minutes add up to, p and n apart. So an hour is
-- exact at every moment: before its rollup, in the middle of it, and when its minutes are dropped.
CREATE OR REPLACE VIEW tally.merged_1h
AS SELECT
    build, family, counter, region, window, slot_day, replica, shard,
    max(p) AS p, max(n) AS n, max(duplicates) AS duplicates
FROM
(
    SELECT build, family, counter, region, window, slot_day, replica, shard, p, n, duplicates
    FROM tally.cells_1h
    UNION ALL
    SELECT
        build, family, counter, region, toStartOfHour(window) AS window, slot_day, replica, shard,
        sum(p) AS p, sum(n) AS n, sum(duplicates) AS duplicates
    FROM tally.merged_1m
    GROUP BY build, family, counter, region, window, slot_day, replica, shard
)
GROUP BY build, family, counter, region, window, slot_day, replica, shard
COMMENT 'Hours, one row per cell, rolled up or not. For people: counts_1h';

CREATE OR REPLACE VIEW tally.merged_1d
AS SELECT
    build, family, counter, region, window, slot_day, replica, shard,
    max(p) AS p, max(n) AS n, max(duplicates) AS duplicates
FROM
(
    SELECT build, family, counter, region, window, slot_day, replica, shard, p, n, duplicates
    FROM tally.cells_1d
    UNION ALL
    SELECT
        build, family, counter, region, toStartOfDay(window) AS window, slot_day, replica, shard,
        sum(p) AS p, sum(n) AS n, sum(duplicates) AS duplicates
    FROM tally.merged_1h
    GROUP BY build, family, counter, region, window, slot_day, replica, shard
)
GROUP BY build, family, counter, region, window, slot_day, replica, shard
COMMENT 'Days, one row per cell, rolled up or not. For people: counts_1d';

CREATE OR REPLACE VIEW tally.merged_life
AS SELECT
    build, family, counter, region, slot_month, replica, shard,
    max(p) AS p, max(n) AS n, max(duplicates) AS duplicates
FROM
(
    SELECT build, family, counter, region, slot_month, replica, shard, p, n, duplicates
    FROM tally.cells_life
    UNION ALL
    SELECT
        build, family, counter, region, toStartOfMonth(slot_day) AS slot_month, replica, shard,
        sum(p) AS p, sum(n) AS n, sum(duplicates) AS duplicates
    FROM tally.merged_1d
    GROUP BY build, family, counter, region, slot_month, replica, shard
)
GROUP BY build, family, counter, region, slot_month, replica, shard
COMMENT 'Months of log time, one row per cell, whether or not their days are still there. For people: totals';
