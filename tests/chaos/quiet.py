"""When everything that is in the log is counted: what the broker itself says."""

import httpx
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.kit.processes import wait_until
from tests.kit.truth.in_clickhouse import ClickHouse
from tests.kit.truth.in_log import TOPIC

ASK_TIMEOUT_S = 10
SETTLE_TIMEOUT_S = 480
"""Half an hour of increments was counted in 237 s by workers on a busy machine."""


def settle(kafka: str, clickhouse: str) -> None:
    """Block until the live build has checkpointed all that the log has now, and deciders have
    flushed all that is decided now."""
    _settle_strict(clickhouse)
    ends = _ends(kafka)
    last: list[object] = [None]

    def is_settled() -> bool:
        server = ClickHouse(clickhouse)
        try:
            rows = server.rows("SELECT build FROM tally.live_builds WHERE cluster = ''")
            committed = _committed(kafka, f"tally-build-{rows[0][0]}", len(ends))
        except (httpx.HTTPError, KafkaException) as error:
            last[0] = error
            return False
        finally:
            server.close()
        last[0] = (rows[0][0], committed)
        return all(at >= end for at, end in zip(committed, ends, strict=True))

    try:
        wait_until(is_settled, "workers checkpoint", timeout_s=SETTLE_TIMEOUT_S, poll_s=0.5)
    except AssertionError:
        raise AssertionError(
            f"not counted within {SETTLE_TIMEOUT_S} s: (build, committed) {last[0]}, ends {ends}"
        ) from None


def _settle_strict(clickhouse: str) -> None:
    """When each partition was flushed is told by ClickHouse's clock, as is now."""
    began: list[object] = []

    def is_settled() -> bool:
        server = ClickHouse(clickhouse)
        try:
            if not began:
                began.extend(server.rows("SELECT toUnixTimestamp64Milli(now64(3))")[0])
            [[late]] = server.rows(
                "SELECT countIf(toUnixTimestamp64Milli(at) < {}) FROM (SELECT max(flushed_at) AS "
                "at FROM tally.strict_flushes GROUP BY shard)".format(*began)
            )
        except httpx.HTTPError:
            return False
        finally:
            server.close()
        return not int(late)

    wait_until(is_settled, "deciders flush", timeout_s=SETTLE_TIMEOUT_S, poll_s=0.5)


def _ends(kafka: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "looks-at-ends", "log_level": 0})
    try:
        partitions = consumer.list_topics(TOPIC, timeout=ASK_TIMEOUT_S).topics[TOPIC].partitions
        return [
            consumer.get_watermark_offsets(TopicPartition(TOPIC, one), timeout=ASK_TIMEOUT_S)[1]
            for one in sorted(partitions)
        ]
    finally:
        consumer.close()


def _committed(kafka: str, group: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group, "log_level": 0})
    try:
        wanted = [TopicPartition(TOPIC, number) for number in range(partitions)]
        found = {at.partition: at.offset for at in consumer.committed(wanted, ASK_TIMEOUT_S)}
        return [found[number] for number in range(partitions)]
    finally:
        consumer.close()
