-- What leaders drop and delete by, so that it does not depend on whose file the leader has. Read at each pass.
CREATE TABLE IF NOT EXISTS tally.retention
(
    applied_at DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever stored it; the latest row holds',
    document   String COMMENT 'How long the windows of each grain are kept: by default, and by family'
)
ENGINE = ReplacingMergeTree
ORDER BY (applied_at, document)
COMMENT 'Retention as it was applied';
