-- Of each cluster the greatest declaration, not the greatest number, is the build that views read.
CREATE TABLE IF NOT EXISTS tally.builds
(
    cluster     LowCardinality(String) COMMENT 'Whose counting: empty for this cluster, else the identity of the one that sent its cells',
    build       UInt32 COMMENT 'A counting of the log that was declared good',
    declaration UInt64 COMMENT 'Which declaration this is; the greatest one of a cluster rules',
    declared_at DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever declared it',
    note        String COMMENT 'By whom and why'
)
ENGINE = ReplacingMergeTree
ORDER BY (cluster, declaration, build)
COMMENT 'Which builds the views read';

INSERT INTO tally.builds SELECT '', 1, 1, now64(3), 'the first build'
WHERE NOT EXISTS (SELECT 1 FROM tally.builds WHERE cluster = '');

CREATE OR REPLACE VIEW tally.live_builds
(
    cluster LowCardinality(String) COMMENT 'Whose counting: empty for this cluster',
    build UInt32 COMMENT 'The build that views read of it'
)
AS SELECT cluster, argMax(build, (declaration, declared_at, build)) AS build
FROM tally.builds
GROUP BY cluster
COMMENT 'The build of each cluster that views read';

-- How a build came about that is not the first one. A worker reads it once, when it begins a shard.
CREATE TABLE IF NOT EXISTS tally.rebuilds
(
    build       UInt32 COMMENT 'The build that is counted anew',
    base        UInt32 COMMENT 'The build whose earlier days were carried over; 0 if none were',
    counts_from DateTime('UTC') COMMENT 'Slots from here on are counted from the log; 1970 when the log is complete',
    rules       String COMMENT 'Rules that hold from its beginning instead of those in the log; empty for none',
    starts      Array(Int64) COMMENT 'Where the log of each partition began then',
    state       UInt8 COMMENT '0 begun, 1 when the earlier days are here, 2 dropped',
    begun_at    DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever began it',
    note        String COMMENT 'By whom and why'
)
ENGINE = ReplacingMergeTree(state)
ORDER BY build
COMMENT 'Builds that were counted anew, and from when on';

-- Written after the rules are in every partition; the log itself is what workers go by.
CREATE TABLE IF NOT EXISTS tally.rules
(
    version    UInt64 COMMENT 'The greatest version holds',
    document   String COMMENT 'The rules as the log has them',
    applied_at DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever applied them',
    note       String COMMENT 'By whom and why'
)
ENGINE = ReplacingMergeTree
ORDER BY (version, document)
COMMENT 'Counting rules that were applied to the log';
