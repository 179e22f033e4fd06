"""How much of a soak's traffic one worker counts when it does not wait for any."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import clickhouse_connect
from confluent_kafka import Consumer, TopicPartition

from benchmarks._one_worker import one_worker
from benchmarks._servers import TOPIC
from benchmarks._soak_load import fill
from benchmarks._tally_run import count_log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STOP_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 20


def full_rate(
    folder: Path, events: int, form: str, partitions: int, settings: Mapping[str, str]
) -> float:
    """Events per second of one worker that reads a filled log.

    A worker before it puts the rules into the log, for what comes after them.
    """
    with one_worker(folder, partitions, settings) as (site, worker, _):
        worker.stop(timeout_s=STOP_TIMEOUT_S)
        with closing(clickhouse_connect.get_client(dsn=site.clickhouse)) as client:
            [(build,)] = client.query("SELECT build FROM tally.live_builds").result_rows
        sent = fill(site.kafka, events, form, partitions)
        counted = count_log(site, _ends(site.kafka, partitions), build, settings=settings)
    return sent / counted.seconds


def _ends(kafka: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "soak", "log_level": 0})
    with closing(consumer):
        return [
            consumer.get_watermark_offsets(TopicPartition(TOPIC, number), ANSWER_TIMEOUT_S)[1]
            for number in range(partitions)
        ]
