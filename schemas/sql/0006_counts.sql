-- Corrections that people made, each a record in the log. A row is written by whoever counts its shard, as often as it
-- likes: all of it is from the log, so that rows of one place are equal.
CREATE TABLE IF NOT EXISTS tally.adjustments
(
    build    UInt32 COMMENT 'Which counting of the log this is',
    family   LowCardinality(String) MATERIALIZED substringIndex(counter, ':', 1) COMMENT 'The part of the counter before the first colon',
    counter  String COMMENT 'What is adjusted: family:key',
    id       String COMMENT 'The same id of a counter holds once: the first in the log',
    region   LowCardinality(String) COMMENT 'Where; empty when unknown',
    grain    LowCardinality(String) COMMENT 'The size of the window that is adjusted: 1m, 1h, 1d; empty for the total alone',
    window   DateTime('UTC') COMMENT 'The window that is adjusted; 1970 for the total alone',
    `by`     Int64 COMMENT 'How much is added; below zero it is taken away',
    who      String COMMENT 'Who made it',
    why      String COMMENT 'Why',
    before   Nullable(Int64) COMMENT 'What was there when it was made, as its maker read it',
    after    Nullable(Int64) COMMENT 'The same with it',
    at       DateTime64(3, 'UTC') COMMENT 'When it was made, by its maker''s clock',
    log_time DateTime64(3, 'UTC') COMMENT 'Log time at its place',
    shard    UInt32 COMMENT 'The partition it is in',
    offset   Int64 COMMENT 'Its offset there',
    INDEX families family TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY build
PRIMARY KEY (build, counter)
ORDER BY (build, counter, id, log_time, shard, offset)
COMMENT 'Corrections as they are in the log. For people: history';

-- Of equal ids the first one in the log holds, whatever the others say.
CREATE OR REPLACE VIEW tally.held_adjustments
AS SELECT
    build, family, counter, id, first.1 AS region, first.2 AS grain, first.3 AS window,
    greatest(first.4, 0::Int128) AS p, greatest(-first.4, 0::Int128) AS n, first.5 AS log_time, first.6 AS shard
FROM
(
    SELECT
        build, family, counter, id,
        argMin(
            (adjustments.region, adjustments.grain, adjustments.window, adjustments.by::Int128, adjustments.log_time, adjustments.shard),
            (adjustments.log_time, adjustments.shard, adjustments.offset)
        ) AS first
    FROM tally.adjustments
    GROUP BY build, family, counter, id
)
COMMENT 'Corrections that hold, each once, as what they add and take away';

-- What cells hold, and corrections beside them as if each were a cell of its own. One of a window is in that window, in
-- those that contain it, and in the total; one without is in the total alone. Rollups and trends never read these.
CREATE OR REPLACE VIEW tally.adjusted_1m
AS SELECT build, family, counter, region, window, slot, slot_day, replica, shard, p, n, duplicates
FROM tally.merged_1m
UNION ALL
SELECT
    build, family, counter, region, window, toStartOfMinute(log_time, 'UTC') AS slot, toDate(log_time) AS slot_day,
    '' AS replica, shard, p, n, 0::Int128 AS duplicates
FROM tally.held_adjustments
WHERE grain = '1m'
COMMENT 'Minutes with corrections. For people: counts_1m';

CREATE OR REPLACE VIEW tally.adjusted_1h
AS SELECT build, family, counter, region, window, slot_day, replica, shard, p, n, duplicates
FROM tally.merged_1h
UNION ALL
SELECT
    build, family, counter, region, toStartOfHour(window) AS window, toDate(log_time) AS slot_day,
    '' AS replica, shard, p, n, 0::Int128 AS duplicates
FROM tally.held_adjustments
WHERE grain IN ('1m', '1h')
COMMENT 'Hours with corrections. For people: counts_1h';

CREATE OR REPLACE VIEW tally.adjusted_1d
AS SELECT build, family, counter, region, window, slot_day, replica, shard, p, n, duplicates
FROM tally.merged_1d
UNION ALL
SELECT
    build, family, counter, region, toStartOfDay(window) AS window, toDate(log_time) AS slot_day,
    '' AS replica, shard, p, n, 0::Int128 AS duplicates
FROM tally.held_adjustments
WHERE grain != ''
COMMENT 'Days with corrections. For people: counts_1d';

CREATE OR REPLACE VIEW tally.adjusted_life
AS SELECT build, family, counter, region, slot_month, replica, shard, p, n, duplicates
FROM tally.merged_life
UNION ALL
SELECT
    build, family, counter, region, toStartOfMonth(toDate(log_time)) AS slot_month,
    '' AS replica, shard, p, n, 0::Int128 AS duplicates
FROM tally.held_adjustments
COMMENT 'Months of log time with corrections. For people: totals';

CREATE OR REPLACE VIEW tally.counts_by_region_1m
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    region LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    count Int128 COMMENT 'Added less taken away in that minute; may be below zero'
)
AS SELECT family, counter, region, window, sum(p) - sum(n) AS count
FROM tally.adjusted_1m
WHERE build IN (SELECT build FROM tally.live_builds)
GROUP BY family, counter, region, window
COMMENT 'Counts per region and minute';

CREATE OR REPLACE VIEW tally.counts_1m
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    count Int128 COMMENT 'Added less taken away in that minute; may be below zero'
)
AS SELECT family, counter, window, sum(p) - sum(n) AS count
FROM tally.adjusted_1m
WHERE build IN (SELECT build FROM tally.live_builds)
GROUP BY family, counter, window
COMMENT 'Counts per minute, all regions together';

CREATE OR REPLACE VIEW tally.counts_by_region_1h
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    region LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window DateTime('UTC') COMMENT 'The hour it happened in',
    count Int128 COMMENT 'Added less taken away in that hour; may be below zero'
)
AS SELECT family, counter, region, window, sum(p) - sum(n) AS count
FROM tally.adjusted_1h
WHERE build IN (SELECT build FROM tally.live_builds)
GROUP BY family, counter, region, window
COMMENT 'Counts per region and hour';

CREATE OR REPLACE VIEW tally.counts_1h
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    window DateTime('UTC') COMMENT 'The hour it happened in',
    count Int128 COMMENT 'Added less taken away in that hour; may be below zero'
)
AS SELECT family, counter, window, sum(p) - sum(n) AS count
FROM tally.adjusted_1h
WHERE build IN (SELECT build FROM tally.live_builds)
GROUP BY family, counter, window
COMMENT 'Counts per hour, all regions together';

CREATE OR REPLACE VIEW tally.counts_by_region_1d
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    region LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window DateTime('UTC') COMMENT 'The day it happened in',
    count Int128 COMMENT 'Added less taken away in that day; may be below zero'
)
AS SELECT family, counter, region, window, sum(p) - sum(n) AS count
FROM tally.adjusted_1d
WHERE build IN (SELECT build FROM tally.live_builds)
GROUP BY family, counter, region, window
COMMENT 'Counts per region and day';

CREATE OR REPLACE VIEW tally.counts_1d
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    window DateTime('UTC') COMMENT 'The day it happened in',
    count Int128 COMMENT 'Added less taken away in that day; may be below zero'
)
AS SELECT family, counter, window, sum(p) - sum(n) AS count
FROM tally.adjusted_1d
WHERE build IN (SELECT build FROM tally.live_builds)
GROUP BY family, counter, window
COMMENT 'Counts per day, all regions together';

CREATE OR REPLACE VIEW tally.totals
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    total Int128 COMMENT 'The value to show: never below zero',
    net Int128 COMMENT 'Everything added less everything taken away'
)
AS SELECT family, counter, greatest(net, 0::Int128) AS total, sum(p) - sum(n) AS net
FROM tally.adjusted_life
WHERE build IN (SELECT build FROM tally.live_builds)
GROUP BY family, counter
COMMENT 'Totals since counting began';
