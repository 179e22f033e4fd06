-- The greatest declaration, not the greatest number, is the build that views read.
CREATE TABLE IF NOT EXISTS tally.builds
(
    build       UInt32 COMMENT 'A counting of the log that was declared good',
    declaration UInt64 COMMENT 'Which declaration this is; the greatest one rules',
    declared_at DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever declared it',
    note        String COMMENT 'By whom and why'
)
ENGINE = ReplacingMergeTree
ORDER BY declaration
COMMENT 'Which build the views read';

INSERT INTO tally.builds SELECT 1, 1, now64(3), 'the first build'
WHERE NOT EXISTS (SELECT 1 FROM tally.builds);

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
