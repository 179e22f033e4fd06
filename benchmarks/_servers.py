"""The embedded log and ClickHouse as processes, filled once, for all contestants to use."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    NewTopic,
)

from schemas.frames import FRAME_CONTENT_TYPE
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TOPIC = "tally.increments"
START_TIMEOUT_S = 60
SEND_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class FilledLog:
    """A running log that holds all events; `ends` has the offset after the last, by partition."""

    kafka: str
    ends: list[int]


@contextmanager
def filled_log(
    folder: Path, parts: Sequence[Sequence[bytes]], *, frames: bool
) -> Iterator[FilledLog]:
    """A log whose partition i holds the messages of `parts[i]`. Ends with the block."""
    log = EmbeddedLog(folder)
    log.start()
    try:
        _create_topic(log.bootstrap, len(parts))
        _send(log.bootstrap, parts, frames=frames)
        yield FilledLog(log.bootstrap, [len(part) for part in parts])
    finally:
        log.kill()


@contextmanager
def clickhouse(folder: Path) -> Iterator[str]:
    """The URL of an empty ClickHouse. Ends with the block."""
    command: list[str | Path] = [sys.executable, "-m", "pipeline.embedded.clickhouse"]
    command += ["--data", folder / "clickhouse", "--host", "127.0.0.1", "--port", "0"]
    with Process(command, output_path=folder / "clickhouse.txt") as server:
        ready = server.wait_for_line(r"^clickhouse ready on (\S+)$", timeout_s=START_TIMEOUT_S)
        yield f"http://{ready.group(1)}"


def _create_topic(kafka: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    config = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(TOPIC, partitions, 1, config=config)])[TOPIC].result(timeout=10)


def _send(kafka: str, parts: Sequence[Sequence[bytes]], *, frames: bool) -> None:
    """Send in order and wait until all is confirmed; raises RuntimeError when it is not."""
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
    for partition, values in enumerate(parts):
        for value in values:
            producer.produce(TOPIC, value, partition=partition, headers=headers)
        # Partition by partition, the bounded queue never fills.
        if producer.flush(SEND_TIMEOUT_S):
            raise RuntimeError(f"the log did not confirm all events of partition {partition}")
