-- What people ask of corrections; the table is in 0006_counts.sql, since counts are made of it.
CREATE OR REPLACE VIEW tally.history
(
    family LowCardinality(String) COMMENT 'The part of the counter before the first colon',
    counter String COMMENT 'What is adjusted: family:key',
    at DateTime64(3, 'UTC') COMMENT 'When it was made, by its maker''s clock',
    who String COMMENT 'Who made it',
    why String COMMENT 'Why',
    `by` Int64 COMMENT 'How much is added; below zero it is taken away',
    before Nullable(Int64) COMMENT 'What was there when it was made, as its maker read it',
    after Nullable(Int64) COMMENT 'The same with it',
    region LowCardinality(String) COMMENT 'Where; empty when unknown',
    grain LowCardinality(String) COMMENT 'The size of the window that is adjusted; empty for the total alone',
    window DateTime('UTC') COMMENT 'The window that is adjusted; 1970 for the total alone',
    id String COMMENT 'The same id of a counter holds once: the first in the log',
    log_time DateTime64(3, 'UTC') COMMENT 'Log time at its place',
    shard UInt32 COMMENT 'The partition it is in',
    offset Int64 COMMENT 'Its offset there'
)
AS SELECT
    family, counter, first.1 AS at, first.2 AS who, first.3 AS why, first.4 AS `by`, first.5 AS before, first.6 AS after,
    first.7 AS region, first.8 AS grain, first.9 AS window, id, first.10 AS log_time, first.11 AS shard, first.12 AS offset
FROM
(
    SELECT
        build, family, counter, id,
        argMin(
            (
                adjustments.at, adjustments.who, adjustments.why, adjustments.by, adjustments.before, adjustments.after,
                adjustments.region, adjustments.grain, adjustments.window,
                adjustments.log_time, adjustments.shard, adjustments.offset
            ),
            (adjustments.log_time, adjustments.shard, adjustments.offset)
        ) AS first
    FROM tally.adjustments
    WHERE build IN (SELECT build FROM tally.live_builds)
    GROUP BY build, family, counter, id
)
ORDER BY at DESC, counter, id
COMMENT 'Corrections that hold: who made them, when, why, and what they changed';

-- A family may have been imported and never counted; then these are its newest windows.
CREATE MATERIALIZED VIEW IF NOT EXISTS tally.newest_windows_of_adjustments TO tally.newest_windows
AS SELECT build, family, max(adjustments.window) AS window
FROM tally.adjustments
WHERE grain != ''
GROUP BY build, family
COMMENT 'Fills newest_windows from what corrections add to windows, of families that have no cells';
