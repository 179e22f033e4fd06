"""An empty ClickHouse as a process, and topics that are filled, for all contestants to use."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    NewTopic,
)

from schemas.frames import FRAME_CONTENT_TYPE
from tests.kit.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Record = tuple[bytes | None, bytes]
"""Key and value of a message."""

TOPIC = "tally.increments"
START_TIMEOUT_S = 60
SEND_TIMEOUT_S = 120


@contextmanager
def clickhouse(folder: Path) -> Iterator[str]:
    """The URL of an empty ClickHouse. Ends with the block."""
    command: list[str | Path] = [sys.executable, "-m", "pipeline.embedded.clickhouse"]
    command += ["--data", folder / "clickhouse", "--host", "127.0.0.1", "--port", "0"]
    with Process(command, output_path=folder / "clickhouse.txt") as server:
        ready = server.wait_for_line(r"^clickhouse ready on (\S+)$", timeout_s=START_TIMEOUT_S)
        yield f"http://{ready.group(1)}"


def fill(
    kafka: str, topic: str, parts: Sequence[Sequence[Record]], *, frames: bool = False
) -> None:
    """Append the records of `parts[i]` to partition i of a topic; block until all is confirmed.

    Raises RuntimeError when something is not.
    """
    producer = Producer(
        {
            "bootstrap.servers": kafka,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 256 * 1024,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    headers: dict[str, str | bytes | None] | None = (
        {"content-type": FRAME_CONTENT_TYPE} if frames else None
    )
    for partition, records in enumerate(parts):
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, partition=partition, headers=headers)
                except BufferError:
                    producer.poll(0.05)
                else:
                    break
        if producer.flush(SEND_TIMEOUT_S):
            raise RuntimeError(f"{topic}-{partition} was not confirmed within {SEND_TIMEOUT_S} s")


def create_topic(kafka: str, topic: str, partitions: int) -> None:
    """As workers want their log to be: it tells the time."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    config = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(timeout=10)
