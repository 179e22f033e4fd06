-- Who this cluster is, for those that it exchanges cells with. Of the greatest number the first row holds, so that
-- two that make one at once agree.
CREATE TABLE IF NOT EXISTS tally.identity
(
    number   UInt64 COMMENT 'The greatest holds: a copy of a cluster gets another one',
    identity UUID COMMENT 'This cluster, for others',
    made_at  DateTime64(3, 'UTC') COMMENT 'When, by ClickHouse''s clock'
)
ENGINE = ReplacingMergeTree
ORDER BY (number, made_at, identity)
COMMENT 'Who this cluster is, for those that it exchanges cells with';

INSERT INTO tally.identity SELECT 1, generateUUIDv4(), now64(3)
WHERE NOT EXISTS (SELECT 1 FROM tally.identity);

-- Cells of another cluster have a build of their own here, from 2^31 on, which no worker counts into.
CREATE TABLE IF NOT EXISTS tally.foreign_builds
(
    build        UInt32 COMMENT 'Under which number its cells are here',
    cluster      String COMMENT 'The identity of the cluster that sends them',
    source_build UInt32 COMMENT 'Their build there',
    begun_at     DateTime64(3, 'UTC') COMMENT 'When the first of them was about to come, by ClickHouse''s clock'
)
ENGINE = ReplacingMergeTree
ORDER BY (build, cluster, source_build)
COMMENT 'Builds of other clusters whose cells are here';

-- A row is written after everything it speaks of is confirmed here. It is kept here, and not where the cells come
-- from, so that a ClickHouse that was lost is simply filled again.
CREATE TABLE IF NOT EXISTS tally.exchanged_parts
(
    build       UInt32 COMMENT 'The build as it is numbered here',
    table_name  LowCardinality(String) COMMENT 'The table',
    day         String COMMENT 'Its partition: a day, the first day of a month, or empty if it has none',
    block       Int64 COMMENT 'Blocks up to this one of that partition, as they are numbered there, are here; -1 for none',
    copied_at   DateTime64(6, 'UTC') COMMENT 'When that was confirmed, by ClickHouse''s clock; the latest row holds'
)
ENGINE = ReplacingMergeTree(copied_at)
ORDER BY (build, table_name, day)
COMMENT 'How much of other clusters'' tables is here';

-- What another cluster let go of goes here as well, when nobody can be in the middle of reading it.
CREATE TABLE IF NOT EXISTS tally.foreign_removals
(
    build      UInt32 COMMENT 'The build as it is numbered here',
    table_name LowCardinality(String) COMMENT 'The table, or the grain where only some families go',
    day        String COMMENT 'Its partition',
    families   String COMMENT 'Of which families, as a condition; empty for all',
    version    UInt64 COMMENT 'Tells a removal from an earlier one of the same',
    noticed_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'When it was known first, by ClickHouse''s clock',
    done       SimpleAggregateFunction(max, UInt8) COMMENT '1 when it has been done'
)
ENGINE = AggregatingMergeTree
ORDER BY (build, table_name, day, families, version)
COMMENT 'What other clusters let go of';

-- For people and alarms: nothing is decided by it.
CREATE TABLE IF NOT EXISTS tally.exchanges
(
    cluster      String COMMENT 'The identity of the cluster that sends its cells',
    build        UInt32 COMMENT 'The build as it is numbered here',
    source_build UInt32 COMMENT 'Its build there',
    log_time     DateTime64(3, 'UTC') COMMENT 'What its log had up to then is here, of every shard',
    rows         UInt64 COMMENT 'How many rows the last pass copied',
    exchanged_at DateTime64(3, 'UTC') COMMENT 'When, by ClickHouse''s clock'
)
ENGINE = ReplacingMergeTree(exchanged_at)
ORDER BY cluster
COMMENT 'When each other cluster last sent its cells, and how far they go';
