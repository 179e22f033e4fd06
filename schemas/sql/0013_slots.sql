-- A shard's ledger: what the log has in each slot, and what became of it, summed before anything is put into cells.
-- All of it only grows while the slot is open and is a function of the log, so rows of one key merge, whoever wrote them.
CREATE TABLE IF NOT EXISTS tally.slots
(
    build      UInt32 COMMENT 'Which counting of the log this is',
    replica    LowCardinality(String) COMMENT 'The cluster that counted it',
    shard      UInt32 COMMENT 'The partition',
    slot       DateTime('UTC') COMMENT 'The minute of log time',
    records    SimpleAggregateFunction(max, Int64) COMMENT 'Records of any kind that the log has in it',
    rows       SimpleAggregateFunction(max, Int64) COMMENT 'Increments in them that could be read',
    added      SimpleAggregateFunction(max, Int64) COMMENT 'The sum of their deltas above zero',
    taken      SimpleAggregateFunction(max, Int64) COMMENT 'The sum of those below zero, without the sign',
    counted    SimpleAggregateFunction(max, Int64) COMMENT 'Increments that were counted into cells',
    p          SimpleAggregateFunction(max, Int64) COMMENT 'What these added',
    n          SimpleAggregateFunction(max, Int64) COMMENT 'What these took away',
    duplicates SimpleAggregateFunction(max, Int64) COMMENT 'Increments skipped because their id was counted before',
    refused    SimpleAggregateFunction(max, Int64) COMMENT 'Increments that are dead letters: too late, too early, too much',
    unreadable SimpleAggregateFunction(max, Int64) COMMENT 'Records, and rows of frames, that are dead letters because they could not be read',
    first      SimpleAggregateFunction(min, Int64) COMMENT 'The offset after the last one of the slot before',
    through    SimpleAggregateFunction(max, Int64) COMMENT 'The offset of its last record'
)
ENGINE = AggregatingMergeTree
PARTITION BY (build, toDate(slot))
ORDER BY (build, replica, shard, slot)
COMMENT 'What the log has in each slot and what became of it, for tally verify';

-- What was found when ClickHouse, the ledger and the log were last compared. A day is looked at again while it differs.
CREATE TABLE IF NOT EXISTS tally.reconciliations
(
    build       UInt32 COMMENT 'Which counting of the log this is',
    shard       UInt32 COMMENT 'The partition',
    slot_day    Date COMMENT 'The day of log time that was looked at',
    against     LowCardinality(String) COMMENT 'What ClickHouse was compared with: ledger, or log when the log itself was read',
    checked_at  DateTime64(3, 'UTC') COMMENT 'When, by the clock of whoever compared',
    through     Int64 COMMENT 'Up to which offset of the shard; -1 for none',
    differences UInt64 COMMENT 'How many numbers differ',
    example     String COMMENT 'One of them, for people'
)
ENGINE = ReplacingMergeTree(checked_at)
ORDER BY (build, shard, slot_day, against)
COMMENT 'Whether log and ClickHouse agree, by shard and day';
