CREATE OR REPLACE VIEW tally.counts_by_region_1m
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is counted: family:key',
    region LowCardinality(String) COMMENT 'Where it happened; empty when unknown',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    count Int128 COMMENT 'Added less taken away in that minute; may be below zero'
)
AS SELECT family, counter, region, window, sum(p) - sum(n) AS count
FROM tally.merged_1m
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
FROM tally.merged_1m
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
FROM tally.merged_1h
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
FROM tally.merged_1h
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
FROM tally.merged_1d
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
FROM tally.merged_1d
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
FROM tally.merged_life
WHERE build IN (SELECT build FROM tally.live_builds)
GROUP BY family, counter
COMMENT 'Totals since counting began';
