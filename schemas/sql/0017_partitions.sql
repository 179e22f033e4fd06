-- How many partitions a topic has, for reads: a partition that was never flushed is missed by this alone. Written before
-- new ones are made, and by the leader, who asks Kafka. Of a topic the latest row holds, not the greatest number.
CREATE TABLE IF NOT EXISTS tally.topic_partitions
(
    topic      String COMMENT 'The topic',
    partitions UInt32 COMMENT 'How many partitions it has, or is about to get',
    seen_at    DateTime64(3, 'UTC') COMMENT 'When that was noted, by ClickHouse''s clock; the latest row of a topic holds'
)
ENGINE = ReplacingMergeTree(seen_at)
ORDER BY topic
COMMENT 'How many partitions the log has, so that reads know what they miss';
